"""Child processes and their sandbox.

`child` is one process with its descendants, `launcher` runs commands to their end, and
`connection` exchanges messages with a program. `watchdog` ends everything if this
process is killed. `bubblewrap` builds the command lines of the sandbox from what
`sandbox_view` shows; `sandbox` has the policy. Another kind of sandbox stands beside
`bubblewrap` and is tried in its `choose`.
"""

# The command `goal` may change settings of its process, such as signal handlers. In
# another program that imports this package, they belong to that program.
_is_ours = False


def take_process() -> None:
    """Declare that this process is our own. The command `goal` does so at its start."""
    global _is_ours
    _is_ours = True


def owns_process() -> bool:
    """Return whether settings of the whole process may be changed."""
    return _is_ours

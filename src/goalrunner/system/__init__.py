"""Child processes and the sandbox, and whether this process is our own.

The command `goal` may change settings of its process. In another program, they belong to that program.
"""

_is_ours = False


def take_process() -> None:
    """Declare that this process is our own. The command `goal` calls it when it starts."""
    global _is_ours
    _is_ours = True


def owns_process() -> bool:
    """Return whether settings of the whole process may be changed."""
    return _is_ours

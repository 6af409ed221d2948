"""What an exit status says, in words. Owns the words alone."""

from __future__ import annotations

from signal import SIGCHLD, SIGCONT, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGURG, SIGWINCH, Signals

_SHELLS = 128
"""Shells and jails give on a signal as this and its number."""

_HARMLESS = frozenset({SIGCHLD, SIGCONT, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGURG, SIGWINCH})
"""Signals that end no process: their numbers are a program's own exit codes."""


def killer(status: int) -> str:
    """What ended a process whose status is `status`: "killed by SIGKILL"; empty where it ended by itself."""
    return "" if status >= 0 else f"killed by {_name(-status)}"


def words_of(status: int) -> str:
    """ "exit 1", "exit 137: SIGKILL" of a process within a shell or a jail, or "killed by SIGKILL"."""
    if status < 0:
        return killer(status)
    known = _SHELLS < status <= _SHELLS + max(Signals) and status - _SHELLS not in _HARMLESS
    return f"exit {status}: {_name(status - _SHELLS)}" if known else f"exit {status}"


def _name(number: int) -> str:
    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"

"""What keeps this user from making namespaces. Owns reading the kernel's settings, and the words that lift each."""

from __future__ import annotations

from pathlib import Path

_SETTINGS = (
    ("user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=15000"),
    ("kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1"),
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "an AppArmor profile for bwrap that allows userns, or sysctl kernel.apparmor_restrict_unprivileged_userns=0",
    ),
)
"""Below /proc/sys: a setting, the value that forbids, and what lifts it."""

_CONTAINER = "in a container, --security-opt seccomp=unconfined (and apparmor=unconfined)"
"""Where no setting says no, a filter of system calls does."""


def allowing(settings: Path = Path("/proc/sys")) -> str:
    """What to do so that bubblewrap may work here."""
    found = [lift for name, forbids, lift in _SETTINGS if _value(settings / name) == forbids]
    return f"let this user make namespaces: {'; '.join(found or [_CONTAINER])}"


def _value(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""

"""Calls of the kernel that no confined command makes: the keyrings, which no namespace parts. Owns that filter alone.

A session's keyring is inherited from process to process; Kerberos tickets and keys of disks lie there. The filter is
classic BPF, as the kernel takes it: it looks at the machine's kind and at the number of the call.
"""

from __future__ import annotations

import errno
import os
import platform
import struct
from functools import cache

_X32 = 0x4000_0000
"""Bit of a call by the third way of an x86-64 kernel, with the same numbers."""

_CALLS: dict[str, dict[int, tuple[int, ...]]] = {
    "x86_64": {0xC000_003E: (248, 249, 250, 248 | _X32, 249 | _X32, 250 | _X32), 0x4000_0003: (286, 287, 288)},
    "aarch64": {0xC000_00B7: (217, 218, 219), 0x4000_0028: (309, 310, 311)},
}
"""By the kernel's machine, and the kind of a program there: add_key, request_key, keyctl."""

_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_NUMBER_AT, _KIND_AT = 0, 4
_ALLOW, _REFUSE = 0x7FFF_0000, 0x0005_0000 | errno.EPERM


def program(machine: str) -> bytes:
    """The filter for a machine as `uname -m` names it; empty for one that is not known."""
    kinds = _CALLS.get(machine)
    if kinds is None:
        return b""
    code: list[tuple[int, int, int, int]] = []
    for kind, numbers in kinds.items():
        code += [(_LOAD, 0, 0, _KIND_AT), (_EQUAL, 0, len(numbers) + 3, kind), (_LOAD, 0, 0, _NUMBER_AT)]
        # To the refusal behind the others and the permission.
        code += [(_EQUAL, len(numbers) - at, 0, number) for at, number in enumerate(numbers)]
        code += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _REFUSE)]
    code.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *line) for line in code)


def filter_path() -> str:
    """A path under which a process of this user can open the filter as long as this one lives; empty where there is none."""
    return _path_of(os.getpid())


@cache
def _path_of(process: int) -> str:
    made = program(platform.machine())
    if not made:
        return ""
    file = os.memfd_create("goal-syscalls", os.MFD_CLOEXEC)
    os.write(file, made)
    return f"/proc/{process}/fd/{file}"

"""Go's `TestMain`: a function in any test file that decides whether the tests of its folder run at all.

Owns finding one that is planted or changed beside protected tests. Everything else in an unprotected test file is free.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Literal

from goalrunner.workspace.entry import Entry
from goalrunner.workspace.protection import Protection, Touched

_ENDING = "_test.go"
_BLANK = rb"(?:\s|/\*.*?\*/|//[^\n]*\n)+"
_TEST_MAIN = re.compile(rb"\bfunc" + _BLANK + rb"TestMain\b.*?(?:^\}|\Z)", re.DOTALL | re.MULTILINE)
"""From its name to the brace in the first column that gofmt ends it with."""

Read = Callable[[str], Awaitable[bytes | None]]


async def test_mains(
    protection: Protection, before: Mapping[str, Entry], now: Mapping[str, Entry], read_old: Read, read_new: Read
) -> tuple[Touched, ...]:
    """Unprotected test files, beside protected ones of the start, whose TestMain is not the one of the start; sorted.

    `read_old` and `read_new` give the content of a path at the start and now. Without `protect` there are none.
    """
    if not protection.active:
        return ()
    tests = (path for path in before if path.casefold().endswith(_ENDING) and protection.why(path))
    folders = {posixpath.dirname(path).casefold() for path in tests}
    found = []
    for path in sorted(now):
        old, new = before.get(path), now[path]
        if not path.casefold().endswith(_ENDING) or posixpath.dirname(path).casefold() not in folders:
            continue
        if protection.why(path) or protection.allowed(path) or (old is not None and old.blob == new.blob):
            continue
        mine = _of(await read_new(path) if new.stored else None)
        if mine and mine != _of(await read_old(path) if old is not None and old.stored else None):
            kind: Literal["planted", "changed"] = "planted" if old is None else "changed"
            rule = "its TestMain decides whether the protected tests beside it run"
            found.append(Touched(path, kind, rule, protection.lift(path)))
    return tuple(found)


def _of(text: bytes | None) -> tuple[bytes, ...]:
    """What a file says of TestMain; a file that cannot be read says nothing."""
    return tuple(_TEST_MAIN.findall(text)) if text else ()

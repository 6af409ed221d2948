"""The mark by which the processes of one launch are known, wherever they move. Owns putting it on; finds nobody.

Two marks are inherited over fork and exec. A variable in the environment is the ordinary one; `env -i`, and daemons that
write their title over it (nginx, postgres), lose it. The other one is on Linux a limit that no program cares about: the
soft limit of POSIX message queues, lowered by some bytes that are each launch's own. It stays readable when the process
is a zombie.
"""

from __future__ import annotations

import secrets
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

VARIABLE = "GOALRUNNER_LAUNCH"
"""Holds the tokens of all launches that a process stems from, outermost first, with colons between."""

_SPREAD = 400_000
_starting = threading.Lock()


@dataclass(frozen=True)
class Mark:
    """One launch's mark: `token` is its own, `guard` the one of all launches that a guardian watches over."""

    token: str = field(default_factory=lambda: secrets.token_hex(8))
    guard: str = ""

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return `env` with the mark added; a mark that is there already stays, so that an outer launch knows its own."""
        tokens = [token for token in (env.get(VARIABLE, ""), self.guard, self.token) if token]
        return {**env, VARIABLE: ":".join(tokens)} if tokens else dict(env)

    @classmethod
    def by_limit(cls) -> Mark:
        """Return a mark without the variable: the resource limit alone."""
        return cls(token="")


@contextmanager
def unmarked() -> Iterator[None]:
    """Start a child meanwhile that belongs to no launch: none lowers its limit."""
    with _starting:
        yield


@contextmanager
def lowered_limit() -> Iterator[int]:
    """Lower the limit for children that are started meanwhile; gives its value, or 0 where there is no such mark."""
    if sys.platform == "linux":
        import resource

        with _starting:
            soft, hard = resource.getrlimit(resource.RLIMIT_MSGQUEUE)
            highest = soft if soft != resource.RLIM_INFINITY else 4 * _SPREAD
            if highest < 2 * _SPREAD:
                yield 0
                return
            marked = highest - 1 - secrets.randbelow(_SPREAD)
            resource.setrlimit(resource.RLIMIT_MSGQUEUE, (marked, hard))
            try:
                yield marked
            finally:
                resource.setrlimit(resource.RLIMIT_MSGQUEUE, (soft, hard))
    else:
        yield 0

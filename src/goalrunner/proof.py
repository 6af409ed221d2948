"""The proof in a clean checkout: workspace and validators brought together. Implements the port `CleanRoom`.

Decides nothing about the run: it says what the validators said there, and why a checkout cannot prove anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from goalrunner.driver.validation import run_validators
from goalrunner.model.goal import ValidatorSpec
from goalrunner.model.snapshot import Snapshot
from goalrunner.model.validation import ValidatorResult
from goalrunner.model.verdict import NOTHING_PROTECTS
from goalrunner.ports import CleanCheck, Launcher, ValidationContext
from goalrunner.validators import Whereabouts, build_validators, missing_tests, without_missing
from goalrunner.validators.base_results import BaseResults
from goalrunner.workspace.bytecode import Bytecode
from goalrunner.workspace.caches import CACHES
from goalrunner.workspace.cleanroom import Checkout, clean_checkout
from goalrunner.workspace.dependencies import Dependencies
from goalrunner.workspace.gotests import test_mains
from goalrunner.workspace.patterns import Patterns
from goalrunner.workspace.protection import Protection, Touched, touched
from goalrunner.workspace.store import SnapshotStore
from goalrunner.workspace.surroundings import moved

LOOK_LIKE_CHECKS = ("test/**", "tests/**", "spec/**", "__tests__/**", "test_*.py", "*_test.*", "*.test.*", "*.spec.*")
"""Without `protect` nothing is restored, but a change to such a path is named to judge and user."""

_LISTED = 5


class ProofRoom:
    """Makes a checkout for each proof below `root`, and removes it again."""

    def __init__(
        self,
        store: SnapshotStore,
        workspace: Path,
        root: Path,
        *,
        specs: Sequence[ValidatorSpec],
        protection: Protection,
        dependencies: Dependencies,
        launcher: Launcher,
        env: Mapping[str, str],
        whereabouts: Whereabouts | None = None,
        record: Path | None = None,
        redact: Callable[[str], str] = str,
    ) -> None:
        """`record` is a folder of the run: what the start was like is kept there, for a run that is resumed."""
        self._store = store
        self._workspace = workspace
        self._root = root
        self._specs = tuple(specs)
        self._protection = protection
        self._dependencies = dependencies
        self._launcher = launcher
        self._env = dict(env)
        self._whereabouts = whereabouts
        self._record = record
        self._remembered = self._looked = False
        self._wrong: tuple[object, ...] = ()
        self._base = BaseResults(record / "base.json" if record else None, redact)
        self._bytecode = Bytecode()
        self._ready: dict[tuple[str, str], asyncio.Task[Checkout]] = {}

    async def touched(self, base: Snapshot, now: Snapshot) -> tuple[str, ...]:
        """Protected paths that differ from the start, one line each."""
        before, after = await self._store.entries(base), await self._store.entries(now)
        caches = Patterns(CACHES, own=True)
        if self._protection.active:
            found = touched(self._protection, before, after, caches=caches)
            mains = await test_mains(
                self._protection, before, after, partial(self._store.read, base), partial(self._store.read, now)
            )
            return tuple(map(str, sorted((*found, *mains), key=lambda item: item.path)))
        own = {item.path: item for item in touched(self._protection, before, after, caches=caches)}
        watched = Protection(LOOK_LIKE_CHECKS, self._protection.allow, self._protection.always)
        looks = {item.path: item for item in touched(watched, before, after, caches=caches)}
        return tuple(
            str(own[path]) if path in own else f"{path} was {looks[path].kind}; {NOTHING_PROTECTS}"
            for path in sorted(own | looks)
        )

    async def remember(self) -> None:
        """See `goalrunner.ports.CleanRoom`. What is wrong there, the first `check` refuses."""
        if not self._remembered:
            self._wrong = await self._dependencies.remember(self._record / "links" if self._record else None)
            self._remembered = True

    @asynccontextmanager
    async def preparing(self, base: Snapshot, proven: Snapshot) -> AsyncIterator[None]:
        """Make the checkout meanwhile. It comes from the store, so that nothing that happens in the workspace is in it.

        What fails here is tried again by `check`, which says it. What no `check` has taken is removed.
        """
        making = asyncio.create_task(self._make(base, proven))
        self._ready[base.id, proven.id] = making
        try:
            yield
        except BaseException:
            making.cancel()
            raise
        finally:
            await asyncio.wait([making])
            if self._ready.pop((base.id, proven.id), None) and not making.cancelled() and not making.exception():
                await making.result().close()

    async def check(self, base: Snapshot, proven: Snapshot, context: ValidationContext) -> CleanCheck:
        """Every validator in a fresh checkout. What it refuses, it refuses by path, rule and remedy."""
        # The first look of a run that nobody resumed: no agent has worked yet.
        untouched = not self._looked and context.iteration == 0 and proven.id == base.id
        await self.remember()
        refusals, self._wrong, self._looked = self._wrong, (), True
        room = await self._prepared(base, proven) or await self._make(base, proven)
        try:
            if untouched:
                self._bytecode.learn(room)
            else:
                await asyncio.to_thread(self._bytecode.lend, room)
            return await self._check(room, proven.id == base.id, context, refusals)
        finally:
            await room.close()

    async def _prepared(self, base: Snapshot, proven: Snapshot) -> Checkout | None:
        making = self._ready.get((base.id, proven.id))
        if making is None:
            return None
        await asyncio.wait([making])
        del self._ready[base.id, proven.id]
        return None if making.cancelled() or making.exception() else making.result()

    async def _make(self, base: Snapshot, proven: Snapshot) -> Checkout:
        linked = self._dependencies.link
        return await clean_checkout(
            self._store, proven, base, self._protection, self._root, workspace=self._workspace, linked=linked
        )

    async def _check(
        self, room: Checkout, is_base: bool, context: ValidationContext, refusals: tuple[object, ...]
    ) -> CleanCheck:
        commands = [spec.run or "" for spec in self._specs]
        provided = await self._dependencies.provide(
            room, self._env, commands, context.scratch(".setup.txt"), strict=self._protection.active
        )
        elsewhere = self._whereabouts.elsewhere() if self._whereabouts is not None else ()
        refusals = (*refusals, *elsewhere, *room.refusals, *provided.refusals)
        if refusals:
            return CleanCheck(restored=room.protected, refusal="\n".join(map(str, refusals)))
        specs = [spec.model_copy(update={"env": moved(spec.env, self._workspace, room)}) for spec in self._specs]
        validators = build_validators(specs, self._launcher, provided.env)
        answers = await run_validators(validators, replace(context, workspace=room.path))
        refusal = "\n".join([*await self._undone(room), *map(str, await self._late())])
        if refusal:
            return CleanCheck(tuple(answers), restored=room.protected, refusal=refusal)
        if is_base and (context.iteration == 0 or not self._base.known):
            self._base.keep(result for result, _ in answers)
        checked = tuple((self._complete(result), output) for result, output in answers)
        said = tuple(map(str, room.touched))
        return CleanCheck(
            results=checked,
            restored=room.protected,
            touched=said,
            lift=_lift(room.touched),
            absent=await self._absent() if any(not result.passed for result, _ in checked) else (),
        )

    async def _absent(self) -> tuple[str, ...]:
        """Ignored paths that no link brings into the checkout."""
        linked = {f"{name}/" for name in self._dependencies.link}
        return tuple(name for name in await self._store.ignored() if f"{name.rstrip('/')}/" not in linked)

    async def _undone(self, room: Checkout) -> list[str]:
        """Protected files that the checks themselves changed: what was checked was then no longer the ruler."""
        disturbed = await room.disturbed()
        found = [item for item in disturbed if item.kind != "planted"]
        lift = _lift(found)
        return [*(f"{item}; a check itself touched it" for item in found), *([lift] if lift else [])]

    async def _late(self) -> tuple[object, ...]:
        """Linked folders that changed while the checks ran."""
        return await self._dependencies.changed() if self._protection.active else ()

    def _complete(self, result: ValidatorResult) -> ValidatorResult:
        """Red where a protected test of the base did not run."""
        base = self._base.of(result.name)
        if base is None or not result.passed:
            return result
        gone = missing_tests(base, result, lambda path: self._protection.why(path) is not None)
        return without_missing(result, gone)


def _lift(found: Sequence[Touched]) -> str:
    """What to write for all of them; empty where each is always protected."""
    paths = [item.path for item in found if item.lift]
    if not paths:
        return ""
    listed = ", ".join(f'"{path}"' for path in paths[:_LISTED])
    more = f" and {len(paths) - _LISTED} more" if len(paths) > _LISTED else ""
    return f"if the agent may change that, the goal file says so: [workspace] allow = [{listed}]{more}"

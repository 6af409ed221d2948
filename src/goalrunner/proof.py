"""The proof in a clean checkout: workspace and validators brought together. Implements the port `CleanRoom`.

Decides nothing about the run: it says what the validators said there, and why a checkout cannot prove anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from goalrunner.driver.validation import run_validators
from goalrunner.model.goal import ValidatorSpec
from goalrunner.model.snapshot import Snapshot
from goalrunner.model.validation import ValidatorResult
from goalrunner.ports import CleanCheck, Launcher, ValidationContext
from goalrunner.validators import build_validators, missing_tests, without_missing
from goalrunner.validators.base_results import BaseResults
from goalrunner.workspace.bytecode import Bytecode
from goalrunner.workspace.caches import CACHES
from goalrunner.workspace.cleanroom import Checkout, clean_checkout
from goalrunner.workspace.dependencies import Dependencies
from goalrunner.workspace.patterns import Patterns
from goalrunner.workspace.protection import Protection, touched
from goalrunner.workspace.store import SnapshotStore

LOOK_LIKE_CHECKS = ("test/**", "tests/**", "spec/**", "__tests__/**", "test_*.py", "*_test.*", "*.test.*", "*.spec.*")
"""Without `protect` nothing is restored, but a change to such a path is named to judge and user."""


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
        record: Path | None = None,
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
        self._record = record
        self._remembered = False
        self._base = BaseResults(record / "base.json" if record else None)
        self._bytecode = Bytecode()
        self._ready: dict[tuple[str, str], asyncio.Task[Checkout]] = {}

    async def touched(self, base: Snapshot, now: Snapshot) -> tuple[str, ...]:
        """Protected paths that differ from the start, one line each."""
        before, after = await self._store.entries(base), await self._store.entries(now)
        caches = Patterns(CACHES, own=True)
        if self._protection.active:
            return tuple(str(item) for item in touched(self._protection, before, after, caches=caches))
        watched = Protection(LOOK_LIKE_CHECKS, self._protection.allow, self._protection.always)
        found = touched(watched, before, after, caches=caches)
        unprotected = "it looks like a check, and nothing protects it"
        return tuple(
            str(item) if self._protection.why(item.path) else f"{item.path} was {item.kind}; {unprotected}"
            for item in found
        )

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
        refusals: tuple[object, ...] = ()
        # The first look of a run that nobody resumed: no agent has worked yet.
        untouched = not self._remembered and context.iteration == 0 and proven.id == base.id
        if not self._remembered:
            refusals = await self._dependencies.remember(self._record / "links" if self._record else None)
            self._remembered = True
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
        refusals = (*refusals, *room.refusals, *provided.refusals)
        if refusals:
            return CleanCheck(restored=room.protected, refusal="\n".join(map(str, refusals)))
        validators = build_validators(self._specs, self._launcher, provided.env)
        answers = await run_validators(validators, replace(context, workspace=room.path))
        refusal = "\n".join([*await self._undone(room), *map(str, await self._late())])
        if refusal:
            return CleanCheck(tuple(answers), restored=room.protected, refusal=refusal)
        if is_base:
            self._base.keep(result for result, _ in answers)
        checked = tuple((self._complete(result), output) for result, output in answers)
        return CleanCheck(results=checked, restored=room.protected, touched=tuple(map(str, room.touched)))

    async def _undone(self, room: Checkout) -> list[str]:
        """Protected files that the checks themselves changed: what was checked was then no longer the ruler."""
        disturbed = await room.disturbed()
        return [f"{item}; a check itself touched it" for item in disturbed if item.kind != "planted"]

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

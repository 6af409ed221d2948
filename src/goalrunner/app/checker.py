"""Running the validators in the check environment."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from goalrunner.checking.environment import CheckEnvironment, EnvironmentFailed, Layer
from goalrunner.checking.git_config import GitSettings
from goalrunner.checking.ignored_classes import Classifier
from goalrunner.checking.ignored_content import IgnoredContent
from goalrunner.checking.ignored_files import build_state
from goalrunner.checking.plan import Plan, labels, make_plan, on_disk
from goalrunner.checking.protection import COMPARED, Protection, is_test
from goalrunner.core.base import Snapshot
from goalrunner.core.check_ports import CheckRun, ValidationContext, Validator
from goalrunner.core.events import ChangedChecks, Content
from goalrunner.core.goal import ValidatorSpec
from goalrunner.core.process_ports import Launcher
from goalrunner.core.verdict import ValidatorResult
from goalrunner.engine.checks import Flakiness, flaky_red, third_run
from goalrunner.engine.validation import Answer, Results, is_hidden, run_validators
from goalrunner.snapshots.diff import Patterns
from goalrunner.snapshots.store import SnapshotStore
from goalrunner.validators import build_validators, is_environmental
from goalrunner.validators.baseline_status import BaseResults, without_space
from goalrunner.validators.fewer_tests import complete, with_uncollected

NEEDED_IGNORED = "needs ignored files"
NOT_ISOLATED = "not isolated"
CHANGED_FILES = "validators changed files"
_RENAMED = re.compile(r"EXDEV|cross-device link", re.IGNORECASE)


class CheckRunner:
    """The checks of one run. Implements the port `Checker`."""

    def __init__(
        self,
        store: SnapshotStore,
        environment: CheckEnvironment,
        comparison: CheckEnvironment,
        *,
        specs: Sequence[ValidatorSpec],
        callables: Sequence[Validator],
        protection: Protection,
        ignored: IgnoredContent,
        git: GitSettings,
        launcher: Callable[[Launcher], Launcher],
        processes: Launcher,
        env: Mapping[str, str],
        outputs: Sequence[str] = (),
        record: Path | None = None,
        redact: Callable[[str], str] = str,
    ) -> None:
        """`comparison` runs validators in the workspace itself. `callables` run in this process.

        `launcher` puts commands into the sandbox, over `processes` or an environment's launcher. `record` is a folder of
        the run for what must survive a resume.
        """
        self._store = store
        self._environment = environment
        self._comparison = comparison
        self._specs = tuple(specs)
        self._callables = tuple(callables)
        self._protection = self._rules = protection
        self._ignored = ignored
        self._git = git
        self._launcher = launcher
        self._processes = processes
        self._env = dict(env)
        self._outputs = tuple(outputs)
        self._base = BaseResults(record / "base.json" if record else None, redact)
        self._flakiness = Flakiness()
        self._remembered = False
        self._tracked: frozenset[str] = frozenset()
        self._tests: tuple[str, ...] = ()

    def recall(self, contents: Sequence[Content]) -> None:
        """Take over the results that an earlier process recorded, oldest first."""
        self._flakiness.recall(contents)

    async def remember(self, base: Snapshot, *, kept: bool = True) -> None:
        """Record what no snapshot holds about the start; wait for it if `kept`. Raise WorkspaceError if that fails."""
        if not self._remembered:
            names = await self._store.ignored_names()
            await asyncio.gather(asyncio.to_thread(self._ignored.begin, names), asyncio.to_thread(self._git.remember))
            self._remembered = True
        if kept:
            await asyncio.to_thread(self._ignored.keep)

    async def check(
        self,
        base: Snapshot,
        now: Snapshot,
        context: ValidationContext,
        *,
        when: str,
        approved: frozenset[str] = frozenset(),
    ) -> CheckRun:
        """Run every validator on `now`. Raise EnvironmentFailed if the environment cannot be set up or kept."""
        # The baseline follows the look at the start at once; in an overlay it cannot change what is being recorded.
        await self.remember(base, kept=self._environment.kind != "overlay")
        self._tracked = frozenset(map(on_disk, await self._store.entries(now)))
        look = self._ignored.first
        self._ignored.first = None
        if look is None:
            look = await asyncio.to_thread(self._ignored.look, await self._store.ignored_names())
        changes = await asyncio.to_thread(self._ignored.compare, look)
        entries = await self._store.entries(base)
        self._tests = tuple(filter(is_test, entries))
        self._rules = self._protection.with_tests(self._base.files, entries)
        plan = await make_plan(
            self._store, self._store.workspace, self._rules, self._ignored, changes, base, now, approved
        )
        about = CheckRun(
            protected_changes=tuple(map(str, plan.differences)),
            differing=tuple(item.path for item in plan.differences),
            refusal=plan.refusal,
            hint=plan.hint,
        )
        if plan.refusal:
            return about
        seen = await asyncio.to_thread(self._ignored.fingerprint, look)
        built = (
            ""
            if self._protection.strict
            else await asyncio.to_thread(build_state, self._store.workspace, changes.build)
        )
        self._flakiness.begin(" ".join((now.id, seen, built, plan.key, *plan.appeared, *plan.dependencies)), when)
        counted, extra, changed = await self._attempts(plan, context)
        await asyncio.to_thread(self._ignored.keep)
        if context.iteration == 0 or not self._base.known:
            results = [result for result, _ in counted.answers]
            self._base.keep(await with_uncollected(results, lambda path: self._store.read(base, path)))
        free = [item for item in plan.allowed if not item.rule.startswith(COMPARED)]
        answers, missing = complete(counted.answers, self._base, self._rules, self._tests, free)
        green = bool(answers) and all(result.passed for result, _ in answers)
        flaky = (f"flaky: {', '.join(counted.flaky)}",) if counted.flaky else ()
        written = (f"{CHANGED_FILES}: {', '.join(counted.changed[:5])}",) if counted.changed else ()
        isolated = (NOT_ISOLATED,) if self._callables else ()
        return replace(
            about,
            results=answers,
            labels=(*labels(plan, green=green), *extra, *flaky, *written, *isolated, *missing),
            changed_checks=changed,
            diff=await self._store.diff(base, now, about.differing) if changed else "",
            leaked=("ignored files",) if await self._leaked(look) else (),
            content=self._flakiness.content(),
        )

    async def compare(self, now: Snapshot, red: Sequence[ValidatorResult], context: ValidationContext) -> str:
        """Return why the environment makes these baseline results red, with the line that helps; else an empty text."""
        incomplete = self._protection.strict or self._environment.kind == "checkout"
        suspicious = {item.name: item for item in red if is_environmental(item, incomplete=incomplete)}
        if not suspicious or self._environment.kind == "in-place":
            return ""
        live = await self._run(self._comparison, (Layer(self._store.workspace),), context)
        for result, _ in live.answers:
            here = suspicious.get(result.name)
            if here is not None and (result.passed or result.exit_code != here.exit_code):
                return await self._explained(here, result, context)
        return ""

    async def _explained(self, here: ValidatorResult, live: ValidatorResult, context: ValidationContext) -> str:
        """Return the difference and a line for the goal file that was seen to remove it."""
        look = await asyncio.to_thread(self._ignored.look, await self._store.ignored_names())
        changes = await asyncio.to_thread(self._ignored.compare, look)
        line = 'check = "in-place"'
        if self._protection.strict and changes.build:
            visible = Layer(self._store.workspace)
            again = await self._run(self._environment, self._git.layers(visible), context)
            found = next((result for result, _ in again.answers if result.name == here.name), None)
            if found is not None and found.exit_code == live.exit_code:
                built = sorted(f'"{path}"' for path in changes.build if not path.endswith("__pycache__"))
                line = f"dependencies = [{', '.join(built)}]"
        kind = self._environment.kind
        if kind == "checkout":
            return (
                f"validator {here.name} cannot work in the fresh checkout: {here.remark}; in the workspace: {live.remark}\n"
                "install what is missing with [workspace] setup, or remove setup and check to use the workspace's packages"
            )
        return (
            f"validator {here.name} cannot work in the check environment ({kind}): {here.remark}; "
            f"in the workspace itself: {live.remark}\nadd to the goal file: [workspace] {line}"
        )

    async def _attempts(
        self, plan: Plan, context: ValidationContext
    ) -> tuple[Results, tuple[str, ...], ChangedChecks | None]:
        """Run with the originals; if that is red, with what might be missing. Return results, labels, changed checks."""
        first = await self._run_plan(plan, context)
        if first.green or context.iteration == 0:
            return first, (), None
        if plan.appeared:
            again = await self._run_plan(plan, context, appeared=True)
            if again.green:
                return again, _needed(plan), None
        with_appeared = (False, True) if plan.appeared else (False,)
        for appeared in with_appeared if plan.differences and not self._protection.strict else ():
            theirs = await self._run_plan(plan, context, appeared=appeared, agents_checks=True)
            free = (*plan.allowed, *plan.differences)
            answers, _ = complete(theirs.answers, self._base, self._rules, self._tests, free)
            if theirs.green and all(result.passed for result, _ in answers):
                paths = tuple(item.path for item in plan.differences)
                results = tuple(result for result, _ in answers)
                changed = ChangedChecks(key=plan.key, paths=paths, results=results)
                return first, _needed(plan) if appeared else (), changed
        return first, (), None

    async def _run_plan(
        self, plan: Plan, context: ValidationContext, *, appeared: bool = False, agents_checks: bool = False
    ) -> Results:
        layer = plan.layer(appeared=appeared, agents_checks=agents_checks)
        layers, decides = self._git.layers(layer), not (appeared or agents_checks)
        ran = await self._run(self._environment, layers, context, third=decides)
        renamed = any(not result.passed and _RENAMED.search(result.feedback) for result, _ in ran.answers)
        if renamed and self._environment.kind == "overlay":
            # An overlay cannot rename a folder of the start.
            await asyncio.to_thread(self._ignored.keep)
            return await self._run(self._comparison, layers, context, third=decides)
        return ran

    async def _run(
        self, environment: CheckEnvironment, layers: Sequence[Layer], context: ValidationContext, *, third: bool = False
    ) -> Results:
        ran = await self._run_group(environment, layers, context, hidden=False, third=third)
        concealed = any(spec.hidden for spec in self._specs) or any(map(is_hidden, self._callables))
        if concealed and (ran.green or not ran.answers):
            # In an environment of their own: what the others wrote must not decide them.
            more = await self._run_group(environment, layers, context, hidden=True, third=third)
            ran = Results((*ran.answers, *more.answers), (*ran.flaky, *more.flaky), (*ran.changed, *more.changed))
        return ran

    async def _run_group(
        self,
        environment: CheckEnvironment,
        layers: Sequence[Layer],
        context: ValidationContext,
        *,
        hidden: bool,
        third: bool,
    ) -> Results:
        async with environment.open(layers) as opened:
            launcher = self._launcher(opened.launcher(self._processes))
            context = replace(context, workspace=opened.path)
            specs, callables = self._specs, self._callables
            if context.iteration == 0:  # there is no response yet, which callables check
                specs, callables = tuple(spec for spec in specs if spec.run is not None), ()
            validators = (*build_validators(specs, launcher, opened.environ(self._env)), *callables)
            answers = await run_validators([item for item in validators if is_hidden(item) is hidden], context)
            decided = await self._decide(answers, validators, context) if third else Results(tuple(answers))
            temporary = Path(self._env.get("TMPDIR") or "/tmp")  # noqa: S108
            results = [result for result, _ in decided.answers]
            if not decided.green and (full := opened.full() or without_space(results, temporary)):
                raise EnvironmentFailed(f"the check environment is full: {full}", "free some space; then goal resume")
            if self._outputs:
                await opened.collect(self._outputs)
            changed = await opened.changed() if decided.green else ()
        outputs = Patterns(self._outputs)
        kept = tuple(path for path in changed if path in self._tracked and not outputs.match(path))
        return replace(decided, changed=kept)

    async def _decide(
        self, answers: Sequence[Answer], validators: Sequence[Validator], context: ValidationContext
    ) -> Results:
        """Let a third run decide where a validator contradicts its earlier result on the same content."""
        by_name = {item.name: item for item in validators}
        spec_of = dict(zip((item.name for item in validators), self._specs, strict=False))
        decided: list[Answer] = []
        flaky: list[str] = []
        for result, output in answers:
            earlier = self._flakiness.contradicted(result)
            spec = spec_of.get(result.name)
            if not earlier:
                decided.append((result, output))
            elif spec is not None and spec.retries == 0:
                decided.append((flaky_red(result, earlier), output))
            else:
                answer = (await run_validators([by_name[result.name]], context))[0]
                flaky.append(result.name)
                decided.append((third_run(answer[0], earlier), answer[1]))
            if result.passed or not _RENAMED.search(result.feedback):
                self._flakiness.note(decided[-1][0])
        return Results(tuple(decided), tuple(flaky))

    async def _leaked(self, before: Classifier) -> bool:
        """Return whether ignored files changed in the live workspace; in place, checks themselves write them there."""
        if self._environment.kind != "overlay":
            return False
        look = await asyncio.to_thread(self._ignored.look, await self._store.ignored_names())
        return not self._ignored.same(before, look)


def _needed(plan: Plan) -> tuple[str, ...]:
    return (f"{NEEDED_IGNORED}: {', '.join(plan.appeared[:5])}",)

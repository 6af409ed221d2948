"""Running the validators in the check environment."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

from goalrunner.app.preflight import EnvironmentChoice, goal_file_rule
from goalrunner.app.resolve import RunConfig
from goalrunner.app.sandbox import CHECKOUTS
from goalrunner.checking.checkout import FreshCheckout
from goalrunner.checking.dependencies import build_state
from goalrunner.checking.environment import CheckEnvironment, EnvironmentFailed, Layer
from goalrunner.checking.git_files import GitSettings
from goalrunner.checking.ignored_classes import Classifier
from goalrunner.checking.ignored_content import IgnoredContent
from goalrunner.checking.in_place import InPlace
from goalrunner.checking.overlay import Overlay
from goalrunner.checking.plan import Plan, make_plan, plan_labels
from goalrunner.checking.protection import COMPARED, Protection, StartFiles
from goalrunner.core.events import ChangedChecks, Content, ValidatorsFinished
from goalrunner.core.labels import Label
from goalrunner.core.observation import Snapshot
from goalrunner.core.ports import CheckRun, ValidationContext, Validator
from goalrunner.core.verdict import ValidatorResult
from goalrunner.engine.checks import is_hidden, run_validators
from goalrunner.engine.journal import Answer, check_run
from goalrunner.engine.snapshot_tracker import Flakiness, Results, flaky_red
from goalrunner.records.run_folder import RunFolder
from goalrunner.snapshots.diff import CACHES, Patterns
from goalrunner.snapshots.objects import EntryPair, printable_path
from goalrunner.snapshots.store import SnapshotStore
from goalrunner.system.launcher import ProcessLauncher
from goalrunner.validators.check_files import scripts_at_start
from goalrunner.validators.fewer_tests import BaseResults, complete, with_uncollected
from goalrunner.validators.shell_validator import build_validators
from goalrunner.validators.suites import is_environmental, without_space

_RENAMED = re.compile(r"EXDEV|cross-device link", re.IGNORECASE)


def writable_copy(
    config: RunConfig, choice: EnvironmentChoice, store: SnapshotStore, folder: RunFolder
) -> CheckEnvironment:
    """Return an environment in which commands see the workspace as it is, and whose changes are discarded or undone."""
    if choice.scratch is not None:
        return Overlay(choice.scratch, config.command_environ)
    return InPlace(store, config.home, start=folder.start)


class CheckRunner:
    """The checks of one run. Implements the port `Checker`."""

    def __init__(
        self,
        config: RunConfig,
        choice: EnvironmentChoice,
        store: SnapshotStore,
        folder: RunFolder,
        processes: ProcessLauncher,
    ) -> None:
        """Make the check environment. What must survive a resume is recorded in the run's folder."""
        goal, start = config.goal, folder.start
        settings, workspace = goal.workspace, config.workspace
        self.config, self.folder, self.processes = config, folder, processes
        self.proven: tuple[Layer, tuple[str, ...]] | None = None
        """The layer of the last green results with the original checks, and the files that validators wrote."""
        self._store = store
        self._sandboxed = partial(config.sandbox.launcher, run_id=folder.run_id, checks=True)
        self.env = config.command_environ
        self._specs, scripts = scripts_at_start(goal.validators, workspace, start / "scripts.json")
        self._callables, self._live = config.options.validators, config.options.live
        self._final = frozenset(spec.name for spec in self._specs if spec.retries == 0)
        self._outputs = settings.outputs
        scripts |= goal_file_rule(config.options.goal_file, workspace)
        self._protection = Protection(
            settings.protect, settings.editable, settings.allow, scripts, setup=choice.kind == "checkout"
        )
        self._rules: Protection | None = None
        self._test_files: frozenset[str] = frozenset()
        self._ignored = IgnoredContent(
            workspace,
            start / "ignored",
            dependencies=settings.dependencies,
            contents=self._protection.strict,
            home=config.home,
        )
        self.git = GitSettings(workspace, start / "git.json")
        self._in_place = InPlace(store, config.home, start=start)
        self.environment = writable_copy(config, choice, store, folder)
        if choice.kind == "checkout":
            self.environment = FreshCheckout(
                store,
                config.home / CHECKOUTS / folder.run_id,
                setup=settings.setup or "",
                commands=[spec.run or "" for spec in goal.validators],
                env=self.env,
                launcher=self._sandboxed(processes),
                scratch=folder.scratch_file,
            )
        self._base = BaseResults(start / "base.json", config.redactor.text)
        self._flakiness = Flakiness()
        self._remembered = False
        self._start, self._start_id = StartFiles(()), ""
        self._changed: Mapping[str, EntryPair] = {}

    def recall(self, contents: Sequence[Content]) -> None:
        self._flakiness.recall(contents)

    async def remember(self, base: Snapshot) -> None:
        """Record ignored files and git's settings at the start, which no snapshot has. Raise WorkspaceError if that fails."""
        if not self._remembered:
            names = await self._store.ignored_names()
            await asyncio.gather(asyncio.to_thread(self._ignored.remember, names), asyncio.to_thread(self.git.remember))
            await self._verify(base)
            self._remembered = True

    async def _start_of(self, base: Snapshot) -> StartFiles:
        if self._start_id != base.id:
            self._start = StartFiles(*await self._store.listing(base))
            self._start_id, self._rules = base.id, None
        return self._start

    async def _verify(self, base: Snapshot) -> None:
        """Compare the files that checks rest on with their snapshot, before the agent can change them."""
        start = await self._start_of(base)
        # A fresh checkout has all files from the snapshot, the other environments only the protected ones.
        whole = self.environment.kind == "checkout"
        await self._store.verify(base, None if whole else start.protected(self._known_rules()))

    async def check(
        self,
        base: Snapshot,
        now: Snapshot,
        context: ValidationContext,
        *,
        when: str,
        approved: Mapping[str, str] = MappingProxyType({}),
    ) -> CheckRun:
        """Run every validator on `now`. Raise EnvironmentFailed if the environment cannot be set up or kept."""
        await self.remember(base)
        start = await self._start_of(base)
        self._changed = await self._store.changed_entries(base, now)
        ignored = await self._look()
        changes = await asyncio.to_thread(self._ignored.compare, ignored)
        plan = await make_plan(
            self._store,
            self._store.workspace,
            self._known_rules(),
            self._ignored,
            changes,
            start,
            self._changed,
            frozenset(approved),
        )
        above = [os.path.relpath(path, self._store.workspace) for path in await asyncio.to_thread(self.git.above)]
        finished = ValidatorsFinished(
            round=0,  # the run knows it
            results=(),
            protected_changes=(
                *map(str, plan.differences),
                *(f"{path} (changed; above the workspace)" for path in above),
            ),
            differing=tuple(item.path for item in plan.differences),
            refusal=plan.refusal,
            hint=plan.hint,
        )
        if plan.refusal:
            return CheckRun(finished)
        build = None if self._protection.strict else changes.build
        built = "" if build is None else await asyncio.to_thread(build_state, self._store.workspace, build)
        content = (now.id, changes.state, built, plan.key, *plan.appeared, *plan.dependencies)
        self._flakiness.begin(" ".join(content), when)
        results, needed, agents_checks = await self._attempts(plan, context)
        if context.iteration == 0 or not self._base.results:
            at_start = [result for result, _ in results.answers]
            self._base.keep(await with_uncollected(at_start, lambda path: self._store.read(base, path)))
            await self._verify(base)
        free = [item for item in plan.allowed if not item.rule.startswith(COMPARED)]
        answers, missing = complete(results.answers, self._base, self._known_rules(), self._start, free)
        green = bool(answers) and all(result.passed for result, _ in answers)
        found = [*plan_labels(plan, green=green), *needed]
        if results.flaky:
            found.append(Label.FLAKY.about(", ".join(results.flaky)))
        if results.changed:
            found.append(Label.CHANGED_FILES.about(", ".join(results.changed[:5])))
        if self._callables:
            found.append(Label.NOT_ISOLATED.value)
        # In place, the checks themselves write ignored files in the workspace.
        leaked = self.environment.kind == "overlay" and not self._ignored.same(ignored, await self._look())
        about = {
            "labels": (*found, *missing),
            "changed_checks": agents_checks,
            "leaked": ("ignored files",) if leaked else (),
            "content": self._flakiness.content(),
        }
        diff = await self._store.diff(base, now, finished.differing) if agents_checks else ""
        return check_run(answers, finished.model_copy(update=about), diff)

    async def on_start(self, base: Snapshot, now: Snapshot, context: ValidationContext) -> bool | None:
        return None

    def _known_rules(self) -> Protection:
        """Return the rules with the tests that ran at the start."""
        if self._rules is None or self._test_files != self._base.files:
            self._test_files = self._base.files
            self._rules = self._protection.with_tests(self._test_files, self._start)
        return self._rules

    def _is_in_snapshot(self, path: str) -> bool:
        """Return whether the snapshot that is being checked contains a path of the disk."""
        name = printable_path(os.fsencode(path))
        return self._changed[name][1] is not None if name in self._changed else name in self._start.paths

    async def compare(self, red: Sequence[ValidatorResult], context: ValidationContext) -> str:
        incomplete = self._protection.strict or self.environment.kind == "checkout"
        suspicious = {item.name: item for item in red if is_environmental(item, incomplete=incomplete)}
        if not suspicious or self.environment.kind == "in-place" or self._live:
            return ""
        live = await self._run(self._in_place, (Layer(self._store.workspace),), context)
        for result, _ in live.answers:
            here = suspicious.get(result.name)
            if here is not None and (result.passed or result.exit_code != here.exit_code):
                place, line = await self._remedy()
                where = f"{place}: {here.remark}; in the workspace itself: {result.remark}"
                return f"validator {here.name} cannot work in the {where}\n{line}"
        return ""

    async def _remedy(self) -> tuple[str, str]:
        """Return the name of the environment, and what a person can do if a validator works only in the workspace."""
        if self.environment.kind == "checkout":
            line = "install what is missing with [workspace] setup, or remove setup and check to use the workspace's packages"
            return "fresh checkout", line
        changes = await asyncio.to_thread(self._ignored.compare, await self._look())
        built = sorted(f'"{path}"' for path in changes.build if not path.endswith("__pycache__"))
        line = f"dependencies = [{', '.join(built)}]" if self._protection.strict and built else 'check = "in-place"'
        return "check environment (overlay)", f"add to the goal file: [workspace] {line}"

    async def _attempts(
        self, plan: Plan, context: ValidationContext
    ) -> tuple[Results, tuple[str, ...], ChangedChecks | None]:
        """Return the results with the original checks, labels, and the agent's checks if only these pass.

        After a red run, the validators run once more with the ignored files that appeared during the run.
        """
        self.proven = None
        results = await self._run_plan(plan, context)
        if results.green:
            self.proven = plan.layer(), results.changed
        if results.green or not context.iteration:
            return results, (), None
        needed = (Label.NEEDED_IGNORED.about(", ".join(plan.appeared[:5])),)
        if plan.appeared:
            with_ignored = await self._run_plan(plan, context, appeared=True)
            if with_ignored.green:
                self.proven = plan.layer(appeared=True), with_ignored.changed
                return with_ignored, needed, None
        if self._protection.strict or not plan.differences:
            return results, (), None
        for appeared in (False, True) if plan.appeared else (False,):
            theirs = await self._run_plan(plan, context, appeared=appeared, agents_checks=True)
            free = (*plan.allowed, *plan.differences)
            answers, _ = complete(theirs.answers, self._base, self._known_rules(), self._start, free)
            if theirs.green and all(result.passed for result, _ in answers):
                paths = tuple(item.path for item in plan.differences)
                changed = ChangedChecks(key=plan.key, paths=paths, results=tuple(result for result, _ in answers))
                return results, needed if appeared else (), changed
        return results, (), None

    async def _run_plan(
        self, plan: Plan, context: ValidationContext, *, appeared: bool = False, agents_checks: bool = False
    ) -> Results:
        layer = plan.layer(appeared=appeared, agents_checks=agents_checks)
        layers, decides = self.git.layers(layer), not (appeared or agents_checks)
        ran = await self._run(self.environment, layers, context, third=decides)
        red = {result.name: result.feedback for result, _ in ran.answers if not result.passed}
        overlay = self.environment.kind == "overlay" and not self._live
        renamed = overlay and any(map(_RENAMED.search, red.values()))
        if not renamed or not self._final.isdisjoint(red):
            return ran
        # An overlay cannot rename a folder that existed at the start, so the validators run once more, in place.
        again = await self._run(self._in_place, layers, context, third=decides)
        green = (result.name for result, _ in again.answers if result.passed and result.name in red)
        return replace(again, flaky=tuple(dict.fromkeys((*again.flaky, *green))))

    async def _run(
        self, environment: CheckEnvironment, layers: Sequence[Layer], context: ValidationContext, *, third: bool = False
    ) -> Results:
        """Run the visible validators, and if they are green, the hidden ones in a new environment.

        So files that visible validators write do not affect hidden ones. With `third`, a third run decides contradictions.
        """
        specs, callables, total = self._specs, self._callables, Results(())
        concealed = any(spec.hidden for spec in specs) or any(map(is_hidden, callables))
        if context.iteration == 0:  # there is no response yet, which callables check
            specs, callables = tuple(spec for spec in specs if spec.run is not None), ()
        expected, where = Patterns((*CACHES, *self._outputs)), "" if environment is self.environment else " in place"
        for hidden in (False, True) if concealed else (False,):
            if hidden and total.answers and not total.green:
                break
            async with environment.open(layers) as opened:
                inside, launcher = replace(context, workspace=opened.path), opened.launcher(self.processes)
                own = build_validators(specs, self._sandboxed(launcher), opened.environ(self.env))
                validators = [item for item in (*own, *callables) if is_hidden(item) is hidden]
                answers = await run_validators(validators, inside)
                ran = await self._decide(answers, validators, inside, where) if third else Results(tuple(answers))
                temporary = Path(self.env.get("TMPDIR") or "/tmp")  # noqa: S108
                results = [result for result, _ in ran.answers]
                if not ran.green and (full := opened.full() or without_space(results, temporary)):
                    raise EnvironmentFailed(
                        f"the check environment is full: {full}", "free some space; then goal resume"
                    )
                if self._outputs:
                    await opened.collect(self._outputs)
                changed = await opened.changed() if ran.green else ()
            kept = tuple(path for path in changed if self._is_in_snapshot(path) and not expected.match(path))
            total = Results((*total.answers, *ran.answers), (*total.flaky, *ran.flaky), (*total.changed, *kept))
        return total

    async def _decide(
        self, answers: Sequence[Answer], validators: Sequence[Validator], context: ValidationContext, where: str
    ) -> Results:
        """Let a third run decide where a validator contradicts its earlier result on the same content."""
        decided: list[Answer] = []
        flaky: list[str] = []
        for answer in answers:
            result, output = answer
            earlier = self._flakiness.contradicted(result, where)
            if earlier and result.name in self._final:
                result = flaky_red(result, earlier)
            elif earlier:
                flaky.append(result.name)
                [(result, output)] = await run_validators([v for v in validators if v.name == flaky[-1]], context)
                said = f"{result.summary} (flaky: a third run decided; see {earlier})"
                result = result.model_copy(update={"summary": said})
            decided.append((result, output))
            self._flakiness.note(result, where)
        return Results(tuple(decided), tuple(flaky))

    async def _look(self) -> Classifier:
        return await asyncio.to_thread(self._ignored.look, await self._store.ignored_names())

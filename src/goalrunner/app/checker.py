"""Running the validators in the check environment."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

from goalrunner.app.kept_baseline import BaselineKeeper
from goalrunner.app.preflight import EnvironmentChoice, goal_file_rule
from goalrunner.app.protected_files import (
    allowing,
    blamed_files,
    named_files,
    protected_groups,
)
from goalrunner.app.resolve import RunConfig
from goalrunner.checking.base_results import BaseResults
from goalrunner.checking.dependencies import build_state
from goalrunner.checking.environment import (
    CheckEnvironment,
    EnvironmentFailed,
    Layer,
    OpenEnvironment,
)
from goalrunner.checking.git_files import GitSettings
from goalrunner.checking.ignored_classes import Classifier
from goalrunner.checking.ignored_content import Changes, IgnoredContent
from goalrunner.checking.in_place import InPlace
from goalrunner.checking.named_by_goal import named_by_goal
from goalrunner.checking.overlay import Overlay
from goalrunner.checking.plan import Plan, make_plan
from goalrunner.checking.protection import MANIFESTS, ChangedPath, Protection
from goalrunner.checking.setup import Setup
from goalrunner.checking.sides import (
    CheckedChanges,
    Decision,
    Side,
    added_test_fails,
    fixes_failure,
    next_side,
    with_endings_on_start,
)
from goalrunner.checking.start_files import StartFiles, language_of
from goalrunner.checking.suppressions import count_suppressions
from goalrunner.core.errors import some
from goalrunner.core.events import ChangedChecks, Content, ValidatorsFinished
from goalrunner.core.freshness import SUITE_REPORTS, is_code
from goalrunner.core.labels import Label
from goalrunner.core.observation import ArtifactRef, Snapshot
from goalrunner.core.ports import CheckRun, Launcher, ValidationContext, Validator
from goalrunner.core.verdict import ValidatorResult
from goalrunner.engine.flakiness import Flakiness, flaky_red
from goalrunner.engine.validator_results import Answer, Results, check_run
from goalrunner.engine.validator_runs import is_hidden, run_validators
from goalrunner.records.run_folder import RunFolder
from goalrunner.snapshots.objects import EntryPair
from goalrunner.snapshots.paths import printable_path
from goalrunner.snapshots.patterns import CACHES, Patterns
from goalrunner.snapshots.store import SnapshotStore
from goalrunner.system.launcher import ProcessLauncher
from goalrunner.validators.environment_faults import is_environmental, without_space
from goalrunner.validators.known_failures import files_of_tests, tests_to_come
from goalrunner.validators.observed_checks import observed_checks
from goalrunner.validators.shell_validator import build_validators
from goalrunner.validators.started_checks import started_checks

_MANIFESTS = Patterns(MANIFESTS, builtin=True)
_RENAMED = re.compile(r"EXDEV|cross-device link", re.IGNORECASE)


def writable_copy(
    config: RunConfig,
    choice: EnvironmentChoice,
    store: SnapshotStore,
    folder: RunFolder,
    setup: Setup | None = None,
) -> CheckEnvironment:
    """Return an environment in which commands see the workspace as it is, or with what
    `setup` installs.
    """
    if choice.scratch is not None:
        return Overlay(choice.scratch, config.command_environ, setup)
    outputs = config.goal.workspace.outputs
    return InPlace(store, config.home, start=folder.start, outputs=outputs, setup=setup)


@dataclass
class _Check:
    """One check in progress, with the results of the sides that ran."""

    ignored: Changes
    context: ValidationContext
    plan: Plan
    changes: CheckedChanges
    runs: dict[Side, Results] = field(default_factory=dict)
    has_hidden: bool = False
    """Whether the results of M have those of hidden validators."""
    content: str = ""
    """Identifies the content that was checked."""
    ignored_content: str = ""
    """Identifies the part of it that git ignores."""
    now: Snapshot | None = None
    """The files that were checked."""
    age: float | None = None
    """Seconds since an earlier command ran the validators; None: they ran now."""

    def is_kept(self, later: _Check) -> bool:
        """Return whether the results of this check count for a later one, after a
        review accepted the changes.
        """
        about = (self.content, self.context.response, bool(self.context.iteration))
        if (
            about
            != (later.content, later.context.response, bool(later.context.iteration))
            or "M" not in self.runs
        ):
            return False
        # The outputs of M count then; those of the run that was shown are stored
        # already.
        return all(
            output is None or output.exists() for _, output in self.runs["M"].answers
        )

    def next_side(self) -> Side | Decision:
        """Return what to run next, or the decision; at the baseline, M decides."""
        step = next_side(
            self.changes, {side: ran.results for side, ran in self.runs.items()}
        )
        return (
            Decision("complete", "M")
            if self.runs and not self.context.iteration
            else step
        )


def _with_delivered(ran: Results, delivered: Results) -> tuple[Answer, ...]:
    """Return the answers of a side with original checks, with the summaries of what the
    agent delivered.
    """
    summaries = {result.name: result.summary for result in delivered.results}
    answers: list[Answer] = []
    for result, output in ran.answers:
        summary = result.summary
        if summaries.get(result.name, summary) != summary:
            summary = f"{summaries[result.name]}; {summary} with the originals"
        answers.append((result.model_copy(update={"summary": summary}), output))
    return tuple(answers)


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
        """Make the check environment.

        What must survive a resume is recorded in the run's folder.
        """
        goal, start = config.goal, folder.start
        settings, workspace = goal.workspace, config.workspace
        self.config, self.folder, self.processes = config, folder, processes
        self._store = store
        self._sandboxed = partial(
            config.sandbox.launcher, run_id=folder.run_id, checks=True
        )
        self.env = config.command_environ
        self._started = started_checks(
            goal.validators, workspace, start / "scripts.json", config.redactor.text
        )
        self._specs = self._started.specs
        self._callables, self._live = config.options.validators, config.options.live
        self._conceals = any(spec.hidden for spec in self._specs) or any(
            map(is_hidden, self._callables)
        )
        self._final = frozenset(spec.name for spec in self._specs if spec.retries == 0)
        self._outputs = settings.outputs
        self._protection = Protection(
            settings.protect,
            settings.editable,
            settings.allow,
            self._started.rules | goal_file_rule(config.options.goal_file, workspace),
            setup=bool(settings.setup),
            named=named_by_goal(
                (goal.objective, *goal.success_criteria), goal.constraints
            ),
        )
        self._rules: Protection | None = None
        self._observed: object = None
        self._last: _Check | None = None
        self._reviewed: ChangedChecks | None = None
        self._ignored = IgnoredContent(
            workspace,
            start / "ignored",
            dependencies=settings.dependencies,
            contents=self._protection.strict,
            home=config.home,
            named=self._started.words,
        )
        self.git = GitSettings(workspace, start / "git.json", self._started.outside)
        self._setup: Setup | None = None
        if settings.setup:
            self._setup = Setup(
                settings.setup, store, self.env, self._launcher, folder.scratch_file
            )
        self.environment = writable_copy(config, choice, store, folder, self._setup)
        self._in_place = InPlace(
            store, config.home, start=start, outputs=settings.outputs
        )
        if isinstance(self.environment, InPlace):
            self._in_place = self.environment
        self._base = BaseResults(start / "base.json", config.redactor.text)
        self._flakiness = Flakiness()
        self._keeper = BaselineKeeper(
            config, store, folder, self._started, self.environment.kind
        )
        self._remembered = False
        self._start, self._start_id = StartFiles(()), ""
        self._changed: Mapping[str, EntryPair] = {}

    def _launcher(self, opened: OpenEnvironment) -> Launcher:
        return self._sandboxed(opened.launcher(self.processes))

    def recall(self, contents: Sequence[Content]) -> None:
        self._flakiness.recall(contents)

    async def remember(self, base: Snapshot) -> None:
        """Record ignored files and git's settings at the start, which no snapshot has.

        Raise WorkspaceError if that fails.
        """
        if not self._remembered:
            if (
                self._setup is not None
                and self.environment.kind == "in-place"
                and not self._ignored.is_recorded
            ):
                async with self.environment.open((Layer(self._store.workspace),)):
                    pass  # what `setup` installs in the workspace belongs to the start
            names = await self._store.ignored_names()
            await asyncio.gather(
                asyncio.to_thread(self._ignored.remember, names),
                asyncio.to_thread(self.git.remember),
            )
            await self._verify(base)
            self._remembered = True

    async def _start_of(self, base: Snapshot) -> StartFiles:
        if self._start_id != base.id:
            self._start = StartFiles(*await self._store.listing(base))
            self._start_id, self._rules = base.id, None
        return self._start

    async def _verify(self, base: Snapshot) -> None:
        """Compare the files that checks rest on with their snapshot, before the agent
        can change them.
        """
        await self._start_of(base)
        await self._store.verify(base, self._known_rules().protected())

    async def check(
        self,
        base: Snapshot,
        now: Snapshot,
        context: ValidationContext,
        *,
        when: str,
        approved: Mapping[str, str] = MappingProxyType({}),
    ) -> CheckRun:
        """Run the validators on `now`, on each side that the decision needs.

        Raise EnvironmentFailed.
        """
        await self.remember(base)
        ignored = await self._look()
        changes = await self._compare(ignored)
        last, check = self._last, await self._begin(base, now, changes, context)
        self._last = check
        plan = await self._refused_in_place(check.plan)
        # The run knows the round.
        finished = ValidatorsFinished(
            round=0, results=(), refusal=plan.refusal, hint=plan.hint
        )
        if plan.refusal:
            return CheckRun(await self._with_differences(finished, plan.changes))
        build = None if self._protection.strict else changes.build
        built = (
            ""
            if build is None
            else await asyncio.to_thread(build_state, self._store.workspace, build)
        )
        check.now = now
        check.ignored_content = f"{changes.state} {built}"
        differing = (*changes.appeared, *changes.dependencies)
        check.content = " ".join((now.id, check.ignored_content, *differing))
        self._flakiness.begin(check.content, when)
        if (
            last is not None
            and self._reviewed is not None
            and self._reviewed.key in approved
            and last.is_kept(check)
        ):
            check.runs, check.has_hidden = last.runs, last.has_hidden
        decision = await self._decision(check)
        ran, reviewed, diff = check.runs[decision.side], None, ""
        await self._keep_base(base, check, decision)
        if decision.ending == "review":
            ran, decision, reviewed = await self._review(check, decision, approved)
            diff = (
                await self._store.diff(base, now, decision.paths)
                if decision.paths
                else ""
            )
        look = await self._look()
        leaked = self.environment.kind == "overlay" and not self._ignored.same(
            ignored, look
        )
        # The checks themselves write ignored files in the workspace.
        if self.environment.kind == "in-place":
            await asyncio.to_thread(self._ignored.adopt, ignored, look)
        refusal, hint = self._rewritten(check)
        suppressed = (
            await self._suppressions(base, now) if decision.ending != "red" else ()
        )
        about = {
            "refusal": decision.refusal or refusal,
            "hint": hint,
            "labels": (
                *decision.labels,
                *self._labels(check, ran, changes),
                *suppressed,
            ),
            "changed_checks": reviewed,
            "leaked": ("ignored files",) if leaked else (),
            # A later change of code makes evidence outdated, even if a check wrote to
            # the file.
            "written": tuple(
                path
                for path in ran.written
                if not (is_code(path) and self._is_in_snapshot(path))
            ),
            "content": self._flakiness.content(),
            "left": self._in_place.made.names,
            "left_changed": tuple(
                item.path for item in check.changes.put_back("O") if item.protected
            ),
        }
        finished = finished.model_copy(update=about)
        if decision.side != "M":
            finished = await self._with_differences(
                finished, check.changes.put_back("O")
            )
        answers = (
            _with_delivered(ran, check.runs["M"])
            if ran is not check.runs["M"]
            else ran.answers
        )
        changed = tuple(item.path for item in check.changes.put_back("B"))
        ran_now = check_run(answers, finished, diff)
        return replace(ran_now, changed=changed, age=check.age)

    async def _refused_in_place(self, plan: Plan) -> Plan:
        """Return the plan, refused if git would be steered by settings that are not put
        back in place.
        """
        if self.environment.kind != "in-place" or not (
            steering := await asyncio.to_thread(self.git.steering)
        ):
            return plan
        why = (
            f"git's own settings changed: {some(steering)}; restore them, as "
            "validators run in the workspace itself"
        )
        return replace(
            plan, refusal=why, hint="or run where an overlay of the workspace works"
        )

    def _rewritten(self, check: _Check) -> tuple[str, str]:
        """Return why the results do not count if validators rewrote what checks the
        work, and a hint; else empty texts.
        """
        rules, changed = (
            self._known_rules(),
            (path for ran in check.runs.values() for path in ran.changed),
        )
        found = [
            path
            for path in sorted(set(changed))
            if path in self._start.paths and rules.is_source_of_checks(path)
        ]
        if not found:
            return "", ""
        why = (
            f"validators rewrite {some(found)}, with which the work is checked, so "
            "their results do not count"
        )
        hint = (
            "let validators only check, such as `ruff format --check`; if they may "
            "rewrite these files: "
        )
        return why, f"{hint}[workspace] allow = {json.dumps(found[:5])}"

    async def on_start(
        self, base: Snapshot, now: Snapshot, context: ValidationContext
    ) -> bool | None:
        check = self._last
        if check is None or "M" not in check.runs:
            changes = await self._compare(await self._look())
            check = self._last = await self._begin(base, now, changes, context)
            await self._run_side(check, "M", hidden=False)
        delivered = check.runs["M"].results
        fixes = fixes_failure(check.changes, delivered)
        if fixes:
            return True
        if added_test_fails(check.changes, delivered, ()) is None:
            return fixes
        return added_test_fails(
            check.changes,
            delivered,
            (await self._run_side(check, "N", hidden=False)).results,
        )

    async def _begin(
        self,
        base: Snapshot,
        now: Snapshot,
        changes: Changes,
        context: ValidationContext,
    ) -> _Check:
        start = await self._start_of(base)
        self._changed = await self._store.changed_entries(base, now)
        return _Check(changes, context, *await self._classified(start, changes))

    async def _classified(
        self, start: StartFiles, changes: Changes, delivered: Results | None = None
    ) -> tuple[Plan, CheckedChanges]:
        """Return what differs from the start; `delivered` are the results of M, which
        tell which new files are tests.
        """
        rules = self._known_rules()
        seen = (
            None
            if delivered is None
            else observed_checks(delivered.results, self._started)
        )
        plan = await make_plan(
            self._store, rules, self._ignored, changes, start, self._changed, seen
        )
        return plan, CheckedChanges(
            plan.changes, self._base.results, rules.strict, rules.allowed
        )

    async def _decision(self, check: _Check) -> Decision:
        """Run one side after the other, until their results decide."""
        if "M" not in check.runs and not await self._reuse(check):
            await self._run_side(check, "M", hidden=False)
        delivered = check.runs["M"]
        if delivered.green and check.changes.changes:
            check.plan, check.changes = await self._classified(
                self._start, check.ignored, delivered
            )
        if delivered.green and "M" in check.changes.sides:
            await self._add_hidden(check)
        while not isinstance(step := check.next_side(), Decision):
            await self._run_side(check, step, hidden=True)
        return step

    async def _reuse(self, check: _Check) -> bool:
        """Take over the baseline of an earlier command; return whether there is one."""
        if check.context.iteration or check.now is None or check.changes.changes:
            return False
        content = " ".join((check.ignored_content, self.git.state()))
        kept = await self._keeper.find(check.now, content)
        if kept is None:
            return False
        check.runs["M"], check.age = kept
        for result in check.runs["M"].results:
            self._flakiness.note(result, "M")
        return True

    def keep_baseline(
        self,
        now: Snapshot,
        outputs: Mapping[str, ArtifactRef],
        read: Callable[[ArtifactRef], bytes],
    ) -> None:
        check = self._last
        if check is not None and check.now == now and check.age is None:
            self._keeper.keep(now, check.runs["M"], outputs, read)

    async def _add_hidden(self, check: _Check) -> None:
        """Run the hidden validators on M.

        With the agent's checks, they run only if these are reviewed.
        """
        if self._conceals and not check.has_hidden:
            check.has_hidden = True
            check.runs["M"] += await self._run_layers(check, "M", visible=False)

    async def _keep_base(
        self, base: Snapshot, check: _Check, decision: Decision
    ) -> None:
        """Keep the results of the baseline, or without one the first results with the
        original checks.
        """
        is_original = decision.side in check.changes.sides
        if check.context.iteration == 0 or (is_original and not self._base.results):
            self._base.keep(check.runs[decision.side].results)
            await self._verify(base)

    async def _review(
        self, check: _Check, decision: Decision, approved: Mapping[str, str]
    ) -> tuple[Results, Decision, ChangedChecks | None]:
        """Return the results that count, the decision, and what a reviewer decides
        about, if it is not decided yet.
        """
        if "M" not in check.changes.sides:
            await self._add_hidden(check)
        delivered = check.runs["M"]
        if not delivered.green:
            return delivered, Decision("red", "M"), None
        key = check.plan.key(
            decision.paths,
            [
                item.test
                for item in decision.tests
                if item.change in ("lost", "skipped")
            ],
        )
        changed = ChangedChecks(
            key=key,
            paths=decision.paths,
            results=tuple(delivered.results),
            tests=decision.tests,
            why=decision.why,
            hint=decision.hint,
        )
        if key in approved:
            return (
                delivered,
                Decision(
                    "complete", "M", (changed.label(approved[key]), *decision.labels)
                ),
                None,
            )
        if self._reviewed is None or self._reviewed.key != key:
            tests = decision.tests
            if self.config.check_policy != "refuse":
                on_start = await self._run_side(check, "N", hidden=False)
                tests = with_endings_on_start(tests, on_start.results)
            self._reviewed = changed.model_copy(update={"tests": tests})
        again = changed.model_copy(update={"tests": self._reviewed.tests})
        return check.runs[decision.side], decision, again

    def _labels(self, check: _Check, ran: Results, changes: Changes) -> list[str]:
        """Return what weakens the results beside what the agent changed in checks."""
        dependencies = list(changes.dependencies)
        if self._setup is not None:
            dependencies += [
                item.path for item in check.plan.changes if _MANIFESTS.match(item.path)
            ]
        found = (
            [Label.DEPENDENCIES_CHANGED.about(some(dependencies))]
            if dependencies
            else []
        )
        if flaky := dict.fromkeys(
            name for side in check.runs.values() for name in side.flaky
        ):
            found.append(Label.FLAKY.about(", ".join(flaky)))
        if ran.changed:
            found.append(Label.CHANGED_FILES.about(", ".join(ran.changed[:5])))
        return [*found, Label.NOT_ISOLATED.value] if self._callables else found

    async def _suppressions(self, base: Snapshot, now: Snapshot) -> tuple[str, ...]:
        """Return the label of suppressions that the agent added to code."""
        paths = [
            path
            for path, (_, new) in self._changed.items()
            if new is not None and language_of(path) is not None
        ]
        count = (
            count_suppressions(await self._store.diff(base, now, paths)) if paths else 0
        )
        return (Label.SUPPRESSIONS_ADDED.about(str(count)),) if count else ()

    async def _with_differences(
        self, finished: ValidatorsFinished, differences: Sequence[ChangedPath]
    ) -> ValidatorsFinished:
        """Return the event with the paths whose original content the validators saw."""
        above = [
            os.path.relpath(path, self._store.workspace)
            for path in await asyncio.to_thread(self.git.above)
        ]
        protected = [item for item in differences if item.protected]
        lines = [str(item) for item in protected]
        lines += [f"{path} (changed; above the workspace)" for path in above]
        paths = tuple(item.path for item in protected)
        return finished.model_copy(
            update={"protected_changes": tuple(lines), "differing": paths}
        )

    def _known_rules(self) -> Protection:
        """Return the rules with what the baseline showed."""
        if self._rules is None or self._observed is not self._base.results:
            self._observed = self._base.results
            seen = observed_checks(self._base.results.values(), self._started)
            self._rules = self._protection.with_observed(seen, self._start)
        return self._rules

    def protected(self) -> tuple[str, ...]:
        return protected_groups(self._held(), self._start.paths)

    def warnings(self, results: Sequence[ValidatorResult]) -> tuple[str, ...]:
        goal, held, found = self.config.goal, sorted(self._held()), list[str]()
        specs = {spec.name: spec for spec in self._specs}
        for result in results:
            spec = specs.get(result.name)
            if spec is not None and (absent := tests_to_come(result, spec)):
                found.append(
                    f"fixes of {result.name} names what is not there, so the agent has "
                    f"to add it: {some(absent)}"
                )
            own = files_of_tests(result, spec)
            others = () if result.passed else blamed_files(result.feedback, held)
            if blamed := [path for path in others if path not in own]:
                where = f"the output of {result.name} points at {some(blamed)}"
                found.append(
                    f"{where}; to let the agent change what is protected: "
                    f"{allowing(blamed)}"
                )
        texts = (goal.objective, *goal.success_criteria)
        named = (
            list(named_files(texts, held))
            if self.config.check_policy != "judge" or self._protection.strict
            else []
        )
        if named:
            waits = self.config.check_policy == "person" and not self._protection.strict
            what = (
                "a change of it waits for a person"
                if waits
                else "a change of it does not count"
            )
            found.append(
                f"the goal names {some(named)}, which is protected: {what}; to allow "
                f"it: {allowing(named)}"
            )
        return tuple(found)

    def _held(self) -> frozenset[str]:
        """Return the protected files of the start, without the goal file."""
        held = self._known_rules().protected() if self._start_id else frozenset()
        return held.difference(
            goal_file_rule(self.config.options.goal_file, self.config.workspace)
        )

    def _is_in_snapshot(self, path: str) -> bool:
        """Return whether the snapshot that is being checked contains a path."""
        return (
            self._changed[path][1] is not None
            if path in self._changed
            else path in self._start.paths
        )

    async def compare(
        self, red: Sequence[ValidatorResult], context: ValidationContext
    ) -> str:
        incomplete = self._protection.strict or self._setup is not None
        suspicious = {
            item.name: item
            for item in red
            if is_environmental(item, incomplete=incomplete)
        }
        if not suspicious or self.environment.kind == "in-place" or self._live:
            return ""
        stages = (False, True) if self._conceals else (False,)
        live = await self._run(
            self._in_place, (Layer(self._store.workspace),), context, stages
        )
        for result in live.results:
            here = suspicious.get(result.name)
            if here is not None and (
                result.passed or result.exit_code != here.exit_code
            ):
                place, line = await self._remedy()
                where = (
                    f"{place}: {here.remark}; in the workspace itself: {result.remark}"
                )
                return f"validator {here.name} cannot work in the {where}\n{line}"
        return ""

    async def _remedy(self) -> tuple[str, str]:
        """Return the name of the environment, and what a person can do if a validator
        works only in the workspace.
        """
        if self._setup is not None:
            line = (
                "install what is missing with [workspace] setup, or remove setup to "
                "use the workspace's packages"
            )
            return "check environment (setup)", line
        changes = await asyncio.to_thread(self._ignored.compare, await self._look())
        built = sorted(
            f'"{path}"' for path in changes.build if not path.endswith("__pycache__")
        )
        line = (
            f"dependencies = [{', '.join(built)}]"
            if self._protection.strict and built
            else 'check = "in-place"'
        )
        return (
            "check environment (overlay)",
            f"add to the goal file: [workspace] {line}",
        )

    async def _run_side(self, check: _Check, side: Side, *, hidden: bool) -> Results:
        """Run the validators on a side and note their results; with `hidden`, the
        hidden ones as well.
        """
        check.runs[side] = await self._run_layers(check, side, hidden=hidden)
        return check.runs[side]

    async def _run_layers(
        self, check: _Check, side: Side, *, visible: bool = True, hidden: bool = True
    ) -> Results:
        layers = self.git.layers(await check.plan.layer(check.changes.put_back(side)))
        stages = [
            is_hidden
            for is_hidden in (False, True)
            if (hidden and self._conceals if is_hidden else visible)
        ]
        ran = await self._run(self.environment, layers, check.context, stages, side)
        red = {
            result.name: result.feedback for result in ran.results if not result.passed
        }
        overlay = (
            self.environment.kind == "overlay"
            and self._setup is None
            and not self._live
        )
        renamed = overlay and any(map(_RENAMED.search, red.values()))
        if not renamed or not self._final.isdisjoint(red):
            return ran
        # An overlay cannot rename a folder that existed at the start, so the validators
        # run once more, in place.
        again = await self._run(
            self._in_place, layers, check.context, stages, f"{side} in place"
        )
        green = (
            result.name
            for result in again.results
            if result.passed and result.name in red
        )
        return replace(again, flaky=tuple(dict.fromkeys((*again.flaky, *green))))

    async def _run(
        self,
        environment: CheckEnvironment,
        layers: Sequence[Layer],
        context: ValidationContext,
        stages: Sequence[bool],
        where: str = "",
    ) -> Results:
        """Run the visible validators (stage False), and if they are green, the hidden
        ones in a new environment.

        So files that visible validators write do not affect hidden ones. A third run
        decides contradictions with an earlier result at the place `where`; empty: none
        does.
        """
        specs, callables, total = self._specs, self._callables, Results(())
        if context.iteration == 0:  # there is no response yet, which callables check
            specs, callables = tuple(spec for spec in specs if spec.run is not None), ()
        expected = Patterns((*CACHES, *self._outputs))
        for hidden in stages:
            if hidden and total.answers and not total.green:
                break
            async with environment.open(layers) as opened:
                inside, launcher = (
                    replace(context, workspace=opened.path),
                    opened.launcher(self.processes),
                )
                own = build_validators(
                    specs,
                    self._sandboxed(launcher),
                    opened.environ(self.env),
                    self._base.results,
                    self.config.options.goal_folder,
                )
                validators = [
                    item for item in (*own, *callables) if is_hidden(item) is hidden
                ]
                answers = await run_validators(validators, inside)
                ran = (
                    await self._decide(answers, validators, inside, where)
                    if where
                    else Results(tuple(answers))
                )
                temporary = Path(self.env.get("TMPDIR") or "/tmp")  # noqa: S108
                if not ran.green and (
                    full := opened.full() or without_space(ran.results, temporary)
                ):
                    raise EnvironmentFailed(
                        f"the check environment is full: {full}",
                        "free some space; then goal resume",
                    )
                if self._outputs:
                    await opened.collect(self._outputs)
                changed = await opened.changed() if ran.green else ()
                written = await opened.wrote() if ran.green else ()
            changed = tuple(
                path for path in changed if not SUITE_REPORTS.fullmatch(path)
            )
            named = {
                path: printable_path(os.fsencode(path)) for path in (*changed, *written)
            }
            kept = tuple(
                path
                for path in changed
                if self._is_in_snapshot(named[path]) and not expected.match(path)
            )
            others = tuple(named[path] for path in written if not expected.match(path))
            total += replace(ran, changed=kept, written=others)
        return total

    async def _decide(
        self,
        answers: Sequence[Answer],
        validators: Sequence[Validator],
        context: ValidationContext,
        where: str,
    ) -> Results:
        """Let a third run decide where a validator contradicts its earlier result on
        the same content.
        """
        decided: list[Answer] = []
        flaky: list[str] = []
        for answer in answers:
            result, output = answer
            earlier = self._flakiness.contradicted(result, where)
            if earlier and result.name in self._final:
                result = flaky_red(result, earlier)
            elif earlier:
                flaky.append(result.name)
                [(result, output)] = await run_validators(
                    [v for v in validators if v.name == flaky[-1]], context
                )
                said = f"{result.summary} (flaky: a third run decided; see {earlier})"
                result = result.model_copy(update={"summary": said})
            decided.append((result, output))
            self._flakiness.note(result, where)
        return Results(tuple(decided), tuple(flaky))

    async def _compare(self, look: Classifier) -> Changes:
        """Return how ignored content that checks see differs from the start.

        After `setup` they see none of it.
        """
        if self._setup is not None and self.environment.kind == "overlay":
            return Changes()
        return await asyncio.to_thread(self._ignored.compare, look)

    async def _look(self) -> Classifier:
        return await asyncio.to_thread(
            self._ignored.look, await self._store.ignored_names()
        )

"""Running the validators in the check environment.

A check has sides, M, B, O, T and N, which `checking/sides.py` defines: M is what the
agent left; on the others, some files have their original content.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType

from goalrunner.app.environment_runs import EnvironmentRuns, Stage
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
from goalrunner.checking.environment import CheckEnvironment, Layer, OpenEnvironment
from goalrunner.checking.git_files import GitSettings
from goalrunner.checking.ignored_classes import Classifier
from goalrunner.checking.ignored_content import Changes, IgnoredContent
from goalrunner.checking.in_place import InPlace
from goalrunner.checking.kept_sides import KeptSides
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
from goalrunner.core.events import (
    ChangedChecks,
    ChangedTest,
    Content,
    ValidatorsFinished,
)
from goalrunner.core.freshness import is_code
from goalrunner.core.goal_tables import ValidatorSpec
from goalrunner.core.labels import Label
from goalrunner.core.observation import ArtifactRef, Snapshot
from goalrunner.core.ports import CheckRun, Launcher, ValidationContext
from goalrunner.core.verdict import ValidatorResult
from goalrunner.engine.validator_results import Answer, Results, check_run
from goalrunner.records.run_folder import RunFolder
from goalrunner.snapshots.objects import EntryPair
from goalrunner.snapshots.patterns import Patterns
from goalrunner.snapshots.store import SnapshotStore
from goalrunner.system.launcher import ProcessLauncher
from goalrunner.validators.check_files import needed_paths
from goalrunner.validators.environment_faults import is_environmental
from goalrunner.validators.known_failures import files_of_tests, tests_to_come
from goalrunner.validators.observed_checks import observed_checks
from goalrunner.validators.started_checks import started_checks

_MANIFESTS = Patterns(MANIFESTS, builtin=True)
# What programs print when they rename a folder of an overlay's lower layer.
_RENAMED = re.compile(r"EXDEV|cross-device link", re.IGNORECASE)
_MOST_ALLOWED = 5  # paths in a proposed line of the goal file


def writable_copy(
    config: RunConfig,
    choice: EnvironmentChoice,
    store: SnapshotStore,
    folder: RunFolder,
    setup: Setup | None = None,
) -> CheckEnvironment:
    """Return an environment whose commands see the workspace and write to a copy.

    With `setup`, they also see what it installs.
    """
    # Only an overlay has a folder for its upper layer.
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

    def counts_for(self, later: _Check) -> bool:
        """Return whether the results of this check are those of a later one as well.

        They are if the same content is checked again, after a review accepted it.
        """
        if self._subject != later._subject or "M" not in self.runs:
            return False
        # The outputs of M count then. Those of the side that was shown to the reviewer
        # are stored already, and its files are gone.
        outputs = (output for _, output in self.runs["M"].answers)
        return all(output is None or output.exists() for output in outputs)

    @property
    def _subject(self) -> tuple[str, str, bool]:
        """What is checked: files, response, and whether the agent has worked."""
        return self.content, self.context.response, bool(self.context.iteration)

    def next_side(self) -> Side | Decision:
        """Return what to run next, or the decision; at the baseline, M decides."""
        # Nothing has changed yet, so the other sides would be the same.
        if self.runs and not self.context.iteration:
            return Decision("complete", "M")
        results = {side: ran.results for side, ran in self.runs.items()}
        return next_side(self.changes, results)


def _known_results(check: _Check, side: Side) -> tuple[ValidatorResult, ...] | None:
    """Return the results of a side; None if it has not run.

    On B, all checks are those of the start, even if the goal allows their change.
    """
    changes = check.changes
    if side == "B":
        changes = changes.without_allowances()
    put_back = changes.put_back(side)
    if not put_back:
        # It has the same files.
        side = "M"
    elif put_back != check.changes.put_back(side):
        return None
    ran = check.runs.get(side)
    return None if ran is None else tuple(ran.results)


@dataclass(frozen=True)
class _Outcome:
    """The results that count, and what they mean."""

    ran: Results
    decision: Decision
    review: ChangedChecks | None = None
    """What a reviewer has to decide about; None if nothing is open."""


def _protection(config: RunConfig, rules: Mapping[str, str]) -> Protection:
    """Return the protection of a goal's files; `rules` are those of its validators."""
    goal, settings = config.goal, config.goal.workspace
    goal_file = goal_file_rule(config.options.goal_file, config.workspace)
    words = goal.success_criteria
    if config.options.trusts_objective:
        words = (goal.objective, *words)
    return Protection(
        settings.protect,
        settings.editable,
        settings.allow,
        {**rules, **goal_file},
        setup=bool(settings.setup),
        named=named_by_goal(words, goal.constraints),
    )


def _with_delivered(ran: Results, delivered: Results) -> tuple[Answer, ...]:
    """Return the answers of a side with original checks.

    Their summaries have those of what the agent `delivered` as well.
    """
    summaries = {result.name: result.summary for result in delivered.results}
    answers: list[Answer] = []
    for result, output in ran.answers:
        summary = result.summary
        # Without both, a person would not see that the agent's own version is green.
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
        self._started = started_checks(
            goal.validators, workspace, start / "scripts.json", config.redactor.text
        )
        self._protection = _protection(config, self._started.rules)
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
            env, scratch = config.command_environ, folder.scratch_file
            self._setup = Setup(settings.setup, store, env, self._launcher, scratch)
        self.environment = writable_copy(config, choice, store, folder, self._setup)
        self._in_place = InPlace(
            store, config.home, start=start, outputs=settings.outputs
        )
        # Two of them would not know which files the other one made.
        if isinstance(self.environment, InPlace):
            self._in_place = self.environment
        self._base = BaseResults(start / "base.json", config.redactor.text)
        self._runs = EnvironmentRuns(
            config,
            self._started.specs,
            self._base,
            self._launcher,
            self._is_in_snapshot,
        )
        self._keeper = BaselineKeeper(
            config, store, folder, self._started, self.environment.kind
        )
        self._is_start_recorded = False
        self._start, self._start_id = StartFiles(()), ""
        self._changed: Mapping[str, EntryPair] = {}
        # The rules, with the results that they were made from.
        self._rules: Protection | None = None
        self._observed: object = None
        self._last: _Check | None = None
        self.lacks_on_base: frozenset[str] = frozenset()
        """The validators that name files which the start does not have."""
        self.lacks_on_checks: frozenset[str] = frozenset()
        """Those that lack such a file on the side N as well."""
        self._reviewed: ChangedChecks | None = None

    def _launcher(self, opened: OpenEnvironment) -> Launcher:
        return self._sandboxed(opened.launcher(self.processes))

    def recall(self, contents: Sequence[Content]) -> None:
        self._runs.flakiness.recall(contents)

    async def remember(self, base: Snapshot) -> None:
        """Record ignored files and git's settings at the start, which no snapshot has.

        Raise WorkspaceError if that fails.
        """
        if self._is_start_recorded:
            return
        is_in_place = self.environment.kind == "in-place"
        if self._setup is not None and is_in_place and not self._ignored.is_recorded:
            # What `setup` installs in the workspace belongs to the start.
            async with self.environment.open((Layer(self._store.workspace),)):
                pass
        names = await self._store.ignored_names()
        await asyncio.gather(
            asyncio.to_thread(self._ignored.remember, names),
            asyncio.to_thread(self.git.remember),
        )
        await self._verify(base)
        self._is_start_recorded = True

    async def _start_of(self, base: Snapshot) -> StartFiles:
        # The listing of a large workspace takes long, so it is made once.
        if self._start_id != base.id:
            self._start = StartFiles(*await self._store.listing(base))
            self._start_id, self._rules = base.id, None
        return self._start

    async def _verify(self, base: Snapshot) -> None:
        """Compare the files that checks rest on with their snapshot.

        That is done before the agent can change them.
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
        # A resumed run has not read the records of its start yet.
        await self.remember(base)
        ignored_files = await self._ignored_now()
        ignored_changes = await self._ignored_changes(ignored_files)
        earlier = self._last
        check = await self._begin(base, now, ignored_changes, context)
        self._last = check
        plan = await self._refused_in_place(check.plan)
        # The run sets the number of the round.
        finished = ValidatorsFinished(
            round=0, results=(), refusal=plan.refusal, hint=plan.hint
        )
        if plan.refusal:
            return CheckRun(await self._with_differences(finished, plan.changes))

        await self._identify(check, now)
        self._runs.flakiness.begin(check.content, when)
        is_accepted = self._reviewed is not None and self._reviewed.key in approved
        # After a review, the same content need not be checked again.
        if earlier is not None and is_accepted and earlier.counts_for(check):
            check.runs, check.has_hidden = earlier.runs, earlier.has_hidden
        decision = await self._decision(check)
        await self._keep_base(base, check, decision)
        outcome, diff = _Outcome(check.runs[decision.side], decision), ""
        if decision.ending == "review":
            outcome = await self._review(check, decision, approved)
            if outcome.decision.paths:
                diff = await self._store.diff(base, now, outcome.decision.paths)

        leaked = await self._has_leaked(ignored_files)
        suppressions: tuple[str, ...] = ()
        # Nothing rests on red results, so what the agent suppressed does not matter.
        if outcome.decision.ending != "red":
            suppressions = await self._suppressions(base, now)
        if outcome.decision.ending == "complete" and context.iteration:
            self._keep_sides(check)
        fields = self._fields(check, outcome, suppressions, leaked=leaked)
        finished = finished.model_copy(update=fields)
        return await self._check_run(check, outcome, finished, diff)

    async def _check_run(
        self,
        check: _Check,
        outcome: _Outcome,
        finished: ValidatorsFinished,
        diff: str,
    ) -> CheckRun:
        """Return the result of a check, with the outputs of the side that counts."""
        delivered = check.runs["M"]
        answers = outcome.ran.answers
        if outcome.ran is not delivered:
            answers = _with_delivered(outcome.ran, delivered)
        # The agent did not see these originals, so the feedback names them.
        if outcome.decision.side != "M":
            originals = check.changes.put_back("O")
            finished = await self._with_differences(finished, originals)
        # On B, only the agent's source differs from the start: these are not source.
        changed = tuple(item.path for item in check.changes.put_back("B"))
        ran_now = check_run(answers, finished, diff)
        return replace(ran_now, changed=changed, age=check.age)

    async def _identify(self, check: _Check, now: Snapshot) -> None:
        """Set what identifies the content that is checked."""
        changes = check.ignored
        built = ""
        # With `protect` or `editable`, checks do not see build output of the workspace.
        if not self._protection.strict:
            built = await asyncio.to_thread(
                build_state, self._store.workspace, changes.build
            )
        check.now = now
        check.ignored_content = f"{changes.state} {built}"
        differing = (*changes.appeared, *changes.dependencies)
        check.content = " ".join((now.id, check.ignored_content, *differing))

    async def _has_leaked(self, before: Classifier) -> bool:
        """Return whether ignored files of the workspace changed during the checks."""
        after = await self._ignored_now()
        if self.environment.kind == "overlay":
            return not self._ignored.same(before, after)
        # In place, the checks themselves write ignored files of the workspace.
        await asyncio.to_thread(self._ignored.adopt, before, after)
        return False

    def _fields(
        self,
        check: _Check,
        outcome: _Outcome,
        suppressions: Sequence[str],
        *,
        leaked: bool,
    ) -> dict[str, object]:
        """Return the fields of `ValidatorsFinished` beside the results."""
        decision = outcome.decision
        refusal, hint = self._rewritten(check)
        labels = (*decision.labels, *self._labels(check, outcome.ran), *suppressions)
        originals = check.changes.put_back("O")
        return {
            "refusal": decision.refusal or refusal,
            "hint": hint,
            "labels": labels,
            "changed_checks": outcome.review,
            "leaked": ("ignored files",) if leaked else (),
            "written": self._written_data(outcome.ran),
            "content": self._runs.flakiness.content(),
            "left": self._in_place.made.names,
            "left_changed": tuple(item.path for item in originals if item.protected),
        }

    def _written_data(self, ran: Results) -> tuple[str, ...]:
        """Return the paths that validators wrote, without code of the snapshot.

        A later change of code makes evidence outdated, even if a check wrote to the
        file.
        """
        paths: list[str] = []
        for path in ran.written:
            if not (is_code(path) and self._is_in_snapshot(path)):
                paths.append(path)
        return tuple(paths)

    async def _refused_in_place(self, plan: Plan) -> Plan:
        """Return the plan, refused if changed settings of git would act on the checks.

        In place, these settings are not put back.
        """
        if self.environment.kind != "in-place":
            return plan
        settings = await asyncio.to_thread(self.git.steering)
        if not settings:
            return plan
        why = (
            f"git's own settings changed: {some(settings)}; restore them, as "
            "validators run in the workspace itself"
        )
        hint = "or run where an overlay of the workspace works"
        return replace(plan, refusal=why, hint=hint)

    def _rewritten(self, check: _Check) -> tuple[str, str]:
        """Return why results do not count if validators rewrote what checks the work.

        Return a hint as well; both are empty if the results count.
        """
        rules, rewritten = self._known_rules(), set[str]()
        for ran in check.runs.values():
            for path in ran.changed:
                if path in self._start.paths and rules.is_source_of_checks(path):
                    rewritten.add(path)
        if not rewritten:
            return "", ""
        paths = sorted(rewritten)
        why = (
            f"validators rewrite {some(paths)}, with which the work is checked, so "
            "their results do not count"
        )
        hint = (
            "let validators only check, such as `ruff format --check`; if they may "
            "rewrite these files: [workspace] allow = "
        )
        return why, f"{hint}{json.dumps(paths[:_MOST_ALLOWED])}"

    async def added_test_fails_on_start(
        self, base: Snapshot, now: Snapshot, context: ValidationContext
    ) -> bool | None:
        check = self._last
        if check is None or "M" not in check.runs:
            # A resumed run has not checked anything yet.
            changes = await self._ignored_changes(await self._ignored_now())
            check = await self._begin(base, now, changes, context)
            self._last = check
            await self._run_side(check, "M", hidden=False)
        delivered = check.runs["M"].results
        fixes = fixes_failure(check.changes, delivered)
        # It is None, whatever the other results are, if no test was added.
        adds_no_test = added_test_fails(check.changes, delivered, ()) is None
        if fixes or adds_no_test:
            return fixes
        on_start = await self._run_side(check, "N", hidden=False)
        self._keep_sides(check)
        return added_test_fails(check.changes, delivered, on_start.results)

    async def side_results(self, side: Side) -> tuple[ValidatorResult, ...]:
        """Return the results of a side of the last check, which runs if needed.

        On B, all checks are those of the start, even if the goal allows their change.
        Raise EnvironmentFailed.
        """
        check = self._last
        assert check is not None, "a check has begun"
        known = _known_results(check, side)
        if known is not None:
            return known
        if side == "B":
            # The decision may rest on another B, so this one is not among the runs.
            changes = check.changes.without_allowances()
            compared = replace(check, changes=changes)
            return tuple((await self._run_layers(compared, side)).results)
        ran = await self._run_side(check, side, hidden=True)
        return tuple(ran.results)

    def _keep_sides(self, check: _Check) -> None:
        """Keep what single tests showed in a green check, for a receipt of the run."""
        if check.now is None:
            return
        sides: dict[Side, tuple[ValidatorResult, ...]] = {}
        for side in ("M", "B", "N"):
            known = _known_results(check, side)
            if known is not None:
                sides[side] = known
        kept = KeptSides.of(check.now.tree, sides, self.config.redactor.text)
        lacking = self.lacks_on_base | self.lacks_on_checks
        kept = kept.model_copy(update={"lacking": tuple(sorted(lacking))})
        kept.write(self.folder.sides)

    @property
    def changes_program(self) -> bool:
        """Whether the last check has changed source or data, and not checks alone."""
        return self._last is not None and bool(self._last.changes.put_back("N"))

    @property
    def start_results(self) -> tuple[ValidatorResult, ...]:
        """The results of the baseline."""
        return tuple(self._base.results.values())

    async def _begin(
        self,
        base: Snapshot,
        now: Snapshot,
        changes: Changes,
        context: ValidationContext,
    ) -> _Check:
        """Return a new check of `now`, of which no side ran; note its changed paths."""
        start = await self._start_of(base)
        self._changed = await self._store.changed_entries(base, now)
        plan, checked_changes = await self._classified(start, changes)
        return _Check(changes, context, plan, checked_changes)

    async def _classified(
        self, start: StartFiles, changes: Changes, delivered: Results | None = None
    ) -> tuple[Plan, CheckedChanges]:
        """Return what differs from the start.

        `delivered` are the results of M, which tell which new files are tests.
        """
        rules, observed = self._known_rules(), None
        if delivered is not None:
            observed = observed_checks(delivered.results, self._started)
        plan = await make_plan(
            self._store, rules, self._ignored, changes, start, self._changed, observed
        )
        if plan.changes:
            changes_now = await asyncio.to_thread(self._with_needed, plan)
            plan = replace(plan, changes=changes_now)
        return plan, CheckedChanges(
            plan.changes, self._base.results, rules.strict, rules.allowed
        )

    def _with_needed(self, plan: Plan) -> tuple[ChangedPath, ...]:
        """Return the changes; those that validators need to run are marked.

        Note which validators lack files on the sides with the source of the start.
        """
        new = {item.path for item in plan.changes if item.change == "new"}
        kept: set[str] = set()
        operands: dict[str, set[str]] = {}
        names: set[str] = set()
        for spec in self._started.specs:
            needed = needed_paths(spec, self._store.workspace, self._started.lines)
            scripts = needed.scripts & new | needed.manifests
            kept |= scripts
            # Other new files lie in folders that the start has, and it sees those.
            folders = tuple(
                path
                for path in needed.operands
                if path.endswith("/") and path[:-1] not in self._start.folders
            )
            operands[spec.name] = {
                path
                for path in new
                if path in needed.operands or path.startswith(folders)
            }
            if scripts or operands[spec.name]:
                names.add(spec.name)
        changes = tuple(
            replace(item, needed=item.path in kept) for item in plan.changes
        )
        put_back = {item.path for item in CheckedChanges(changes).put_back("N")}
        lacking = {name for name, paths in operands.items() if paths & put_back}
        self.lacks_on_base, self.lacks_on_checks = frozenset(names), frozenset(lacking)
        return changes

    async def _decision(self, check: _Check) -> Decision:
        """Run one side after the other, until their results decide."""
        if "M" not in check.runs and not await self._reuse(check):
            await self._run_side(check, "M", hidden=False)
        delivered = check.runs["M"]
        if delivered.green and check.changes.changes:
            # The results of M show which of the new files are tests.
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
        baseline = await self._keeper.find(check.now, content)
        if baseline is None:
            return False
        check.runs["M"], check.age = baseline
        for result in check.runs["M"].results:
            self._runs.flakiness.note(result, "M")
        return True

    def keep_baseline(
        self,
        now: Snapshot,
        outputs: Mapping[str, ArtifactRef],
        read: Callable[[ArtifactRef], bytes],
    ) -> None:
        check = self._last
        # A reused baseline is stored already.
        if check is not None and check.now == now and check.age is None:
            self._keeper.keep(now, check.runs["M"], outputs, read)

    async def _add_hidden(self, check: _Check) -> None:
        """Run the hidden validators on M.

        With the agent's checks, they run only if these are reviewed.
        """
        if self._runs.conceals and not check.has_hidden:
            check.has_hidden = True
            check.runs["M"] += await self._run_layers(check, "M", visible=False)

    async def _keep_base(
        self, base: Snapshot, check: _Check, decision: Decision
    ) -> None:
        """Keep the results of the baseline.

        Without a baseline, these are the first results with the original checks.
        """
        is_original = decision.side in check.changes.sides
        if check.context.iteration == 0 or (is_original and not self._base.results):
            self._base.keep(check.runs[decision.side].results)
            await self._verify(base)

    async def _review(
        self, check: _Check, decision: Decision, approved: Mapping[str, str]
    ) -> _Outcome:
        """Return what counts if the agent changed checks.

        `approved` are the keys of changes that a reviewer accepted.
        """
        # A reviewer must not be asked about work that hidden validators reject.
        if "M" not in check.changes.sides:
            await self._add_hidden(check)
        delivered = check.runs["M"]
        if not delivered.green:
            return _Outcome(delivered, Decision("red", "M"))
        gone = [item for item in decision.tests if item.change in ("lost", "skipped")]
        key = check.plan.key(decision.paths, [item.test for item in gone])
        changed = ChangedChecks(
            key=key,
            paths=decision.paths,
            results=tuple(delivered.results),
            tests=decision.tests,
            why=decision.why,
            hint=decision.hint,
        )
        if key in approved:
            labels = (changed.label(approved[key]), *decision.labels)
            return _Outcome(delivered, Decision("complete", "M", labels))
        # A run on the source of the start costs as much as a check, so there is one for
        # each change.
        if self._reviewed is None or self._reviewed.key != key:
            tests = await self._tests_on_start(check, decision.tests)
            self._reviewed = changed.model_copy(update={"tests": tests})
        # The same change is shown again as it was at first.
        again = changed.model_copy(update={"tests": self._reviewed.tests})
        return _Outcome(check.runs[decision.side], decision, again)

    async def _tests_on_start(
        self, check: _Check, tests: tuple[ChangedTest, ...]
    ) -> tuple[ChangedTest, ...]:
        """Return the tests with their endings on the source of the start."""
        if self.config.check_policy == "refuse":
            # The agent reads of the refusal at once; no reviewer compares the endings.
            return tests
        on_start = await self._run_side(check, "N", hidden=False)
        return with_endings_on_start(tests, on_start.results)

    def _labels(self, check: _Check, ran: Results) -> list[str]:
        """Return what weakens the results beside what the agent changed in checks."""
        labels: list[str] = []
        dependencies = list(check.ignored.dependencies)
        if self._setup is not None:
            for item in check.plan.changes:
                if _MANIFESTS.match(item.path):
                    dependencies.append(item.path)
        if dependencies:
            labels.append(Label.DEPENDENCIES_CHANGED.about(some(dependencies)))
        flaky: dict[str, None] = {}
        for side in check.runs.values():
            flaky |= dict.fromkeys(side.flaky)
        if flaky:
            labels.append(Label.FLAKY.about(", ".join(flaky)))
        if ran.changed:
            labels.append(Label.CHANGED_FILES.about(", ".join(ran.changed[:5])))
        if self._runs.callables:
            # They run in this process, outside of the check environment.
            labels.append(Label.NOT_ISOLATED.value)
        return labels

    async def _suppressions(self, base: Snapshot, now: Snapshot) -> tuple[str, ...]:
        """Return the label of suppressions that the agent added to code."""
        # With removed files: what was moved to another file is not new.
        paths = [path for path in self._changed if language_of(path) is not None]
        if not paths:
            # Without paths, the diff would be that of all files.
            return ()
        count = count_suppressions(await self._store.diff(base, now, paths))
        return (Label.SUPPRESSIONS_ADDED.about(str(count)),) if count else ()

    async def _with_differences(
        self, finished: ValidatorsFinished, differences: Iterable[ChangedPath]
    ) -> ValidatorsFinished:
        """Return the event with the paths whose original content the validators saw."""
        protected = [item for item in differences if item.protected]
        lines = [str(item) for item in protected]
        for path in await asyncio.to_thread(self.git.above):
            relative = os.path.relpath(path, self._store.workspace)
            lines.append(f"{relative} (changed; above the workspace)")
        paths = tuple(item.path for item in protected)
        return finished.model_copy(
            update={"protected_changes": tuple(lines), "differing": paths}
        )

    def _known_rules(self) -> Protection:
        """Return the rules with what the baseline showed."""
        if self._rules is None or self._observed is not self._base.results:
            # The results are replaced as a whole, so their identity shows a change.
            self._observed = self._base.results
            observed = observed_checks(self._base.results.values(), self._started)
            self._rules = self._protection.with_observed(observed, self._start)
        return self._rules

    def protected(self) -> tuple[str, ...]:
        return protected_groups(self._protected_files(), self._start.paths)

    def warnings(self, results: Sequence[ValidatorResult]) -> tuple[str, ...]:
        protected = sorted(self._protected_files())
        specs = {spec.name: spec for spec in self._started.specs}
        texts: list[str] = []
        for result in results:
            texts += _result_warnings(result, specs.get(result.name), protected)
        texts += self._goal_warnings(protected)
        return tuple(texts)

    def _goal_warnings(self, protected: Sequence[str]) -> list[str]:
        """Return a warning if the goal names files that the agent cannot change."""
        goal, policy = self.config.goal, self.config.check_policy
        is_strict = self._protection.strict
        if policy == "judge" and not is_strict:
            # The judge reads the objective, and can accept what it asks for.
            return []
        named = list(named_files((goal.objective, *goal.success_criteria), protected))
        if not named:
            return []
        what = "a change of it does not count"
        if policy == "person" and not is_strict:
            what = "a change of it waits for a person"
        return [
            (
                f"the goal names {some(named)}, which is protected: {what}; "
                f"to allow it: {allowing(named)}"
            )
        ]

    def _protected_files(self) -> frozenset[str]:
        """Return the protected files of the start, without the goal file."""
        if not self._start_id:
            return frozenset()
        options = self.config.options
        goal_file = goal_file_rule(options.goal_file, self.config.workspace)
        # The goal file is always protected, so naming it would say nothing.
        return self._known_rules().protected().difference(goal_file)

    def _is_in_snapshot(self, path: str) -> bool:
        """Return whether the snapshot that is being checked contains a path."""
        if path in self._changed:
            return self._changed[path][1] is not None
        return path in self._start.paths

    async def environment_fault(
        self, red: Sequence[ValidatorResult], context: ValidationContext
    ) -> str:
        is_incomplete = self._protection.strict or self._setup is not None
        # Other red results have nothing to do with where the validators run.
        suspicious = {
            item.name: item
            for item in red
            if is_environmental(item, incomplete=is_incomplete)
        }
        is_live = self.config.options.live
        if not suspicious or self.environment.kind == "in-place" or is_live:
            return ""
        stages: list[Stage] = ["visible"]
        if self._runs.conceals:
            stages.append("hidden")
        workspace = Layer(self._store.workspace)
        in_place = await self._runs.run(self._in_place, (workspace,), context, stages)
        for result in in_place.results:
            red_result = suspicious.get(result.name)
            if red_result is None:
                continue
            if result.passed or result.exit_code != red_result.exit_code:
                place, remedy = await self._remedy()
                return (
                    f"validator {red_result.name} cannot work in the {place}: "
                    f"{red_result.remark}; "
                    f"in the workspace itself: {result.remark}\n{remedy}"
                )
        return ""

    async def _remedy(self) -> tuple[str, str]:
        """Return the name of the environment, and a remedy.

        A person needs it if a validator works only in the workspace.
        """
        if self._setup is not None:
            return "check environment (setup)", (
                "install what is missing with [workspace] setup, or remove setup "
                "to use the workspace's packages"
            )
        # Without a list of what is missing, only the workspace itself helps.
        line = 'check = "in-place"'
        changes = await asyncio.to_thread(
            self._ignored.compare, await self._ignored_now()
        )
        built = [path for path in changes.build if not path.endswith("__pycache__")]
        if self._protection.strict and built:
            quoted = sorted(f'"{path}"' for path in built)
            line = f"dependencies = [{', '.join(quoted)}]"
        return (
            "check environment (overlay)",
            f"add to the goal file: [workspace] {line}",
        )

    async def _run_side(self, check: _Check, side: Side, *, hidden: bool) -> Results:
        """Run the validators on a side, and note their results.

        With `hidden`, run the hidden ones as well.
        """
        check.runs[side] = await self._run_layers(check, side, hidden=hidden)
        return check.runs[side]

    async def _run_layers(
        self, check: _Check, side: Side, *, visible: bool = True, hidden: bool = True
    ) -> Results:
        layers = self.git.layers(await check.plan.layer(check.changes.put_back(side)))
        stages: list[Stage] = []
        if visible:
            stages.append("visible")
        if hidden and self._runs.conceals:
            stages.append("hidden")
        ran = await self._runs.run(
            self.environment, layers, check.context, stages, side
        )
        red = {result.name for result in ran.results if not result.passed}
        if not self._needs_renaming(ran) or not self._runs.final.isdisjoint(red):
            return ran
        # An overlay cannot rename a folder that existed at the start (EXDEV), so the
        # validators run once more, in place.
        again = await self._runs.run(
            self._in_place, layers, check.context, stages, f"{side} in place"
        )
        flaky = list(again.flaky)
        for result in again.results:
            if result.passed and result.name in red:
                flaky.append(result.name)
        return replace(again, flaky=tuple(dict.fromkeys(flaky)))

    def _needs_renaming(self, ran: Results) -> bool:
        """Return whether a validator failed to rename a folder of an overlay."""
        is_overlay = self.environment.kind == "overlay" and self._setup is None
        if not is_overlay or self.config.options.live:
            return False
        for result in ran.results:
            if not result.passed and _RENAMED.search(result.feedback):
                return True
        return False

    async def _ignored_changes(self, look: Classifier) -> Changes:
        """Return how ignored content that checks see differs from the start."""
        if self._setup is not None and self.environment.kind == "overlay":
            # After `setup`, they see none of it.
            return Changes()
        return await asyncio.to_thread(self._ignored.compare, look)

    async def _ignored_now(self) -> Classifier:
        """Return the files that git ignores now."""
        names = await self._store.ignored_names()
        return await asyncio.to_thread(self._ignored.look, names)


def _result_warnings(
    result: ValidatorResult, spec: ValidatorSpec | None, protected: Sequence[str]
) -> list[str]:
    """Return warnings about one result of the baseline."""
    texts: list[str] = []
    absent = tests_to_come(result, spec) if spec is not None else ()
    if absent:
        texts.append(
            f"fixes of {result.name} names what is not there, so the agent has to "
            f"add it: {some(absent)}"
        )
    if result.passed:
        return texts
    # That a test fails is no error of its file.
    test_files = files_of_tests(result, spec)
    blamed: list[str] = []
    for path in blamed_files(result.feedback, protected):
        if path not in test_files:
            blamed.append(path)
    if blamed:
        texts.append(
            f"the output of {result.name} points at {some(blamed)}; to let the agent "
            f"change what is protected: {allowing(blamed)}"
        )
    return texts

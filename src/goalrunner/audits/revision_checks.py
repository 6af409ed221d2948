"""The validators of a goal, run once in the check environment with the originals of a git revision."""

from __future__ import annotations

from dataclasses import dataclass, replace

from goalrunner.app.build import PreparedRun, open_run
from goalrunner.app.preflight import needs_environment
from goalrunner.app.readiness import readiness
from goalrunner.app.resolve import resolve
from goalrunner.app.run_options import RunOptions, only_checks
from goalrunner.app.run_snapshots import remove_run
from goalrunner.core.errors import UsageError
from goalrunner.core.goal import Goal
from goalrunner.core.observation import Observation, Trail, trail_with
from goalrunner.core.ports import ValidationContext
from goalrunner.core.verdict import (
    GoalVerdict,
    SuiteRecord,
    ValidatorResult,
    verdict_of,
)
from goalrunner.engine.journal import result_facts
from goalrunner.engine.turns import NoAgent
from goalrunner.records.run_folder import CHECKS, RunFolder, new_run_id
from goalrunner.snapshots.store import SnapshotStore, revision_snapshot

_KEPT = 4_000_000  # bytes at each end of an output that the judge can see


@dataclass(frozen=True)
class RevisionChecks:
    """The results of the validators, and the text of each output in the same order."""

    results: tuple[ValidatorResult, ...] = ()
    outputs: tuple[str, ...] = ()
    refusal: str = ""
    protected_changes: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()

    @property
    def verdict(self) -> GoalVerdict:
        """The runner's own verdict: complete if every validator is green."""
        return verdict_of(self.results, self.refusal, self.protected_changes)

    def added_to(self, trail: Trail) -> Trail:
        """Return the trail with the results of visible validators at its end, as observations of the runner."""
        number = max(
            (int(item.id[1:]) for item in trail.items if isinstance(item, Observation)),
            default=0,
        )
        last = max((item.round for item in trail.items), default=0)
        own: list[tuple[Observation, str]] = []
        for result, text in zip(self.results, self.outputs, strict=True):
            if not result.hidden:
                identifier, source = (
                    f"o{number + len(own) + 1}",
                    f"validator {result.name}",
                )
                facts = result_facts(result)
                item = Observation(
                    id=identifier,
                    source=source,
                    facts=facts,
                    command=result.command,
                    round=last,
                )
                own.append((item, text))
        return trail_with([*((item, trail.read(item)) for item in trail.items), *own])


async def check_revision(
    goal: Goal, revision: str, options: RunOptions
) -> RevisionChecks:
    """Run the validators of a goal on its workspace as it is now; protected files have the content of the revision.

    Files that git ignores are used as they are. No run is kept. Raise UsageError for a goal without
    validators, without a git repository, or for an unknown revision; GoalError if the validators cannot run.
    """
    if not needs_environment(goal):
        raise UsageError(
            "there are no validators to run at the revision",
            'name one: --validator "CMD", or [[validators]] in the goal file; they need deliverable = "workspace"',
        )
    config = resolve(only_checks(goal), replace(options, conversation=NoAgent()))
    findings = readiness(config)
    for finding in findings:
        if finding.error is not None:
            raise finding.error
    config.refuse_shared_workspace()
    folder = RunFolder.create(config.home, new_run_id(config.home, "audit"), CHECKS)
    try:
        prepared = open_run(config, findings, folder)
        try:
            return await _checked(prepared, revision)
        finally:
            prepared.close()
    finally:
        remove_run(config.home, folder)


async def _checked(prepared: PreparedRun, revision: str) -> RevisionChecks:
    parts, config = prepared.run.parts, prepared.config
    store, checker = parts.watch, parts.checker
    assert isinstance(store, SnapshotStore), "the deliverable is a workspace"
    assert checker is not None, "there is a check environment"
    now = await store.snapshot()
    base = await revision_snapshot(store, revision, config.options.environ)
    context = ValidationContext(
        run_id=prepared.folder.run_id,
        iteration=1,
        objective=config.goal.objective,
        workspace=parts.workspace,
        response="",
        conversation=parts.conversation,
        scratch=parts.scratch,
    )
    ran = await checker.check(base, now, context, when="the audit")
    after = await store.snapshot()
    changed = tuple(change.path for change in await store.changes(now, after))
    finished = ran.finished
    leaked = [*finished.leaked, *changed]
    results, outputs = [], []
    for result, output in zip(finished.results, ran.outputs, strict=True):
        shown = {
            name: parts.redact(getattr(result, name))
            for name in ("feedback", "command", "summary")
        }
        results.append(result.model_copy(update={**shown, "suite": SuiteRecord()}))
        text = shown["feedback"]
        if output is not None:
            text = b"".join(
                parts.artifacts.ends(parts.artifacts.adopt(output), _KEPT)
            ).decode(errors="replace")
        outputs.append(text)
    written = (
        f"the workspace changed while validators ran: {', '.join(leaked[:5])}"
        if leaked
        else ""
    )
    return RevisionChecks(
        tuple(results),
        tuple(outputs),
        finished.refusal or written,
        finished.protected_changes,
        finished.labels,
    )

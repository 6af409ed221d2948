"""The validators of a goal, run once with the protected files of a git revision."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from goalrunner.app.build import PreparedRun, open_run, open_stores
from goalrunner.app.preflight import needs_environment
from goalrunner.app.pruning import remove_run
from goalrunner.app.readiness import readiness
from goalrunner.app.resolve import resolve
from goalrunner.app.run_options import RunOptions, only_checks
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
from goalrunner.engine.conversations import NoAgent
from goalrunner.engine.validator_results import result_facts
from goalrunner.records.run_folder import CHECKS, RunFolder
from goalrunner.records.run_search import new_run_id
from goalrunner.snapshots.store import SnapshotStore, revision_snapshot

# Bytes at each end of an output that the judge can see.
_OUTPUT_END = 4_000_000
_NAMED_PATHS = 5


@dataclass(frozen=True)
class RevisionChecks:
    """The results of the validators, and the text of each output in the same order."""

    results: tuple[ValidatorResult, ...] = ()
    outputs: tuple[str, ...] = ()
    refusal: str = ""
    """Why the results do not count; empty if they do."""
    protected_changes: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()

    @property
    def verdict(self) -> GoalVerdict:
        """The runner's own verdict: complete if every validator is green."""
        return verdict_of(self.results, self.refusal, self.protected_changes)

    def added_to(self, trail: Trail) -> Trail:
        """Return the trail with the results of visible validators at its end.

        They are observations of the runner.
        """
        parts = [(item, trail.read(item)) for item in trail.items]
        last_round = max((item.round for item in trail.items), default=0)
        number = 0
        for item in trail.items:
            if isinstance(item, Observation):
                number = max(number, int(item.id[1:]))
        for result, text in zip(self.results, self.outputs, strict=True):
            if result.hidden:
                continue
            number += 1
            observation = Observation(
                id=f"o{number}",
                source=f"validator {result.name}",
                facts=result_facts(result),
                command=result.command,
                round=last_round,
            )
            parts.append((observation, text))
        # The order of the items says what is outdated, and it does not change here.
        return replace(trail_with(parts), said=trail.said, stale=trail.stale)


async def check_revision(
    goal: Goal, revision: str, options: RunOptions
) -> RevisionChecks:
    """Run the validators of a goal on its workspace as it is now.

    Protected files have the content of the revision; files that git ignores are used as
    they are. No run is kept. Raise UsageError for a goal without validators, without a
    git repository, or for an unknown revision; GoalError if the validators cannot run.
    """
    if not needs_environment(goal):
        raise UsageError(
            "there are no validators to run at the revision",
            'name one: --validator "CMD", or [[validators]] in the goal file; '
            'they need deliverable = "workspace"',
        )
    config = resolve(only_checks(goal), replace(options, conversation=NoAgent()))
    findings = readiness(config)
    for finding in findings:
        if finding.error is not None:
            raise finding.error
    config.refuse_shared_workspace()
    # A folder of checks is not listed as a run.
    folder = RunFolder.create(config.home, new_run_id(config.home, "audit"), CHECKS)
    try:
        prepared = open_run(config, findings, open_stores(config, folder))
        try:
            return await _run_validators(prepared, revision)
        finally:
            prepared.close()
    finally:
        remove_run(config.home, folder)


async def _run_validators(prepared: PreparedRun, revision: str) -> RevisionChecks:
    parts = prepared.run.parts
    store, checker = parts.snapshots, parts.checker
    assert isinstance(store, SnapshotStore), "the deliverable is a workspace"
    assert checker is not None, "there is a check environment"
    now = await store.snapshot()
    base = await revision_snapshot(store, revision, prepared.config.options.environ)
    context = ValidationContext(
        run_id=prepared.records.run_id,
        iteration=1,
        objective=prepared.config.goal.objective,
        workspace=parts.workspace,
        response="",
        conversation=parts.conversation,
        scratch=parts.scratch,
    )
    checked = await checker.check(base, now, context, when="the audit")
    after = await store.snapshot()
    changes = await store.changes(now, after)
    finished = checked.finished
    results = []
    outputs = []
    for result, output in zip(finished.results, checked.outputs, strict=True):
        redacted_result = _redacted(result, prepared)
        results.append(redacted_result)
        outputs.append(_output_text(output, redacted_result, prepared))
    changed_paths = [*finished.leaked, *(change.path for change in changes)]
    return RevisionChecks(
        results=tuple(results),
        outputs=tuple(outputs),
        refusal=finished.refusal or _change_refusal(changed_paths),
        protected_changes=finished.protected_changes,
        labels=finished.labels,
    )


def _redacted(result: ValidatorResult, prepared: PreparedRun) -> ValidatorResult:
    """Return a result without secrets and without its record of single tests."""
    redact = prepared.run.parts.redact
    return result.model_copy(
        update={
            "feedback": redact(result.feedback),
            "command": redact(result.command),
            "summary": redact(result.summary),
            "suite": SuiteRecord(),
        }
    )


def _output_text(
    output: Path | None, result: ValidatorResult, prepared: PreparedRun
) -> str:
    """Return the text of a validator's output; its feedback if there is no output."""
    if output is None:
        return result.feedback
    artifacts = prepared.run.parts.artifacts
    # Adopted outputs are redacted.
    ends = artifacts.ends(artifacts.adopt(output), _OUTPUT_END)
    return b"".join(ends).decode(errors="replace")


def _change_refusal(changed_paths: list[str]) -> str:
    """Return why the results do not count if validators changed the workspace."""
    if not changed_paths:
        return ""
    names = ", ".join(changed_paths[:_NAMED_PATHS])
    return f"the workspace changed while validators ran: {names}"

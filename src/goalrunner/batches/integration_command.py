"""What `goal apply BATCH` and `goal batch --apply` print while they integrate."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from goalrunner.batches.batch_folder import BatchFolder, BatchLog
from goalrunner.batches.history import BatchState, EntryIntegrated
from goalrunner.batches.integration import Integration
from goalrunner.batches.integration_rules import integration_order, is_left_out
from goalrunner.batches.repository_integration import (
    IntegrationSettings,
    RepositoryIntegration,
)
from goalrunner.cli import output, runs
from goalrunner.core.errors import ExitCode, some
from goalrunner.reports.figures import count
from goalrunner.reports.layout import Fact
from goalrunner.reports.short_forms import SHORT_ID, home_path


def apply_batch(batch: BatchFolder, branch: str = "", *, json: bool = False) -> int:
    """Integrate a batch that no other process drives; return the exit code.

    It is 1 if a change is left out. Raise as `Integration.perform` does.
    """
    with batch.writing() as log:
        return apply_open_batch(batch, log, branch, json=json)


def apply_open_batch(
    batch: BatchFolder,
    log: BatchLog,
    branch: str = "",
    *,
    json: bool = False,
    on_decision: Callable[[EntryIntegrated], None] | None = None,
) -> int:
    """Integrate a batch whose log this process writes, as `apply_batch` does.

    With `on_decision`, nothing is printed: it is called with each decision.
    """
    settings = IntegrationSettings(runs.home(), os.environ)
    integration = Integration(batch, log, settings, branch)
    # A branch that cannot be used is refused before anything is printed.
    integration.open()
    is_text = not json and on_decision is None
    if is_text:
        _say(*_opening_facts(log.state, integration))
    try:
        for decision in integration.perform():
            if on_decision is not None:
                on_decision(decision)
            elif is_text:
                _say(_fact(log.state, decision))
    except KeyboardInterrupt:
        # Each decision is recorded, so the next process goes on after the last one.
        output.complain(f"Interrupted. goal apply {batch.batch_id} goes on.")
        raise
    if json:
        output.say(_values(log.state, integration))
    if is_text:
        _say(*_closing_facts(log.state, integration))
    is_missing = any(map(is_left_out, integration.decisions.values()))
    return int(ExitCode.CAPPED) if is_missing else int(ExitCode.COMPLETE)


def _opening_facts(state: BatchState, integration: Integration) -> Iterator[Fact]:
    """Yield the decisions of earlier processes, and what begins now."""
    for decision in integration.decisions.values():
        yield _fact(state, decision)
    number = len(integration_order(state, integration.decisions))
    if number:
        changes = count(number, "change")
        branch = integration.branch
        # The checks may take minutes before the next line.
        text = f"{changes}, one after another onto {branch}; each commit is checked"
        yield Fact("integrates", text, "dim")


def _say(*facts: Fact) -> None:
    if facts:
        output.say(output.terminal_text(facts))


def _fact(state: BatchState, decision: EntryIntegrated) -> Fact:
    """Return the line of one decision."""
    entry = state.entries[decision.key]
    name = entry.entry.name
    if decision.commit:
        commit = decision.commit[:SHORT_ID]
        return Fact("taken", f"{name}: commit {commit} · run {entry.run_id}", "good")
    if is_left_out(decision):
        return Fact("left out", f"{name}: {decision.reason}", "warn")
    return Fact("unchanged", f"{name}: {decision.reason}", "dim")


def _closing_facts(state: BatchState, integration: Integration) -> Iterator[Fact]:
    """Yield where the changes are, and the commands that come next."""
    name = integration.branch
    for repository in integration.repositories.values():
        place = home_path(str(repository.root))
        if not repository.end:
            yield Fact("branch", f"{place} has no branch {name}: no change is taken")
            continue
        number = count(
            len(_taken_in(state, integration, repository)), "verified change"
        )
        end = repository.end[:SHORT_ID]
        yield Fact("branch", f"{name} in {place}: {number}, up to commit {end}")
        if repository.carried:
            carried = some(repository.carried)
            yield Fact(
                "", f"its first commit has what was not committed there: {carried}"
            )
        yield Fact("publish", f"git push origin {name}", whole=True)
    for key, decision in integration.decisions.items():
        if is_left_out(decision):
            run_id = state.entries[key].run_id
            yield Fact("next", f"goal apply {run_id}", whole=True)


def _taken_in(
    state: BatchState, integration: Integration, repository: RepositoryIntegration
) -> list[str]:
    """Return the keys of the entries whose changes are on one of the branches."""
    keys = []
    for key, decision in integration.decisions.items():
        is_here = integration.integration_of(state.entries[key]) is repository
        if decision.commit and is_here:
            keys.append(key)
    return keys


def _values(state: BatchState, integration: Integration) -> dict[str, object]:
    """Return the result for `--json`."""
    decisions = []
    for key, decision in integration.decisions.items():
        entry = state.entries[key]
        decisions.append(
            {
                "key": key,
                "name": entry.entry.name,
                "run_id": entry.run_id,
                "commit": decision.commit,
                "reason": decision.reason,
            }
        )
    branches = []
    for repository in integration.repositories.values():
        branches.append(
            {
                "repository": str(repository.root),
                "commit": repository.end,
                "uncommitted": list(repository.carried),
            }
        )
    return {
        "batch_id": state.plan.batch_id,
        "branch": integration.branch,
        "repositories": branches,
        "entries": decisions,
    }

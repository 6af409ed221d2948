"""A state explained: who decided what, when, and on which evidence."""

from __future__ import annotations

from goalrunner.core.events import ApprovalRecorded, ApprovalRequested, Event, Record
from goalrunner.core.fold import apply
from goalrunner.core.run_state import RunState
from goalrunner.reports.show import state_text
from tests.support.told_run import created, started


def folded(*happened: Event) -> RunState:
    """The state of a run in which that happened, a minute each."""
    state: RunState | None = None
    for place, event in enumerate((created(), started(), *happened), start=1):
        state = apply(state, Record(seq=place, at=f"2026-11-02T10:{place:02}:00.000+00:00", event=event))
    assert state is not None
    return state


def asked(name: str, action: str) -> ApprovalRequested:
    """A request that was made on two observations."""
    return ApprovalRequested(
        approval_id=name,
        kind="shell",
        action=action,
        rule="[approvals] shell",
        tool_call_id=f"call_{name}",
        expires_at="2026-11-03T10:00:00+00:00",
        evidence_refs=("o3", "o4"),
    )


def test_each_approval_says_who_when_and_on_which_evidence() -> None:
    state = folded(
        asked("a1", "git push"),
        ApprovalRecorded(approval_id="a1", decision="approved", by="ann", evidence_refs=("o3", "o4")),
        asked("a2", "rm -rf build"),
        ApprovalRecorded(approval_id="a2", decision="denied", by="bob", reason="not today", guarded=False),
        asked("a3", "git tag"),
    )
    lines = state_text(state).splitlines()
    assert [line for line in lines if line.startswith("approval")] == [
        "approval   a1: git push ([approvals] shell) · approved by ann at 2026-11-02T10:04:00.000+00:00, on o3, o4",
        (
            "approval   a2: rm -rf build ([approvals] shell) · denied by bob (unguarded) at 2026-11-02T10:06:00.000+00:00, "
            "on o3, o4: not today"
        ),
    ]
    assert [line for line in lines if line.startswith("waits")] == [
        (
            "waits      a3: git tag ([approvals] shell; since 2026-11-02T10:07:00.000+00:00, "
            "until 2026-11-03T10:00:00+00:00, on o3, o4)"
        )
    ]

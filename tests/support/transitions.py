"""Which event may follow which: an oracle for logs that folds nothing and knows the runner's code not at all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from goalrunner.core import events
from goalrunner.core.events import Record, observations_of
from goalrunner.core.outcome import GoalStatus, StopReason

AFTER_THE_END = (
    events.RunResumed,
    events.ApprovalRecorded,
    events.QuestionAnswered,
    events.MemoryPromoted,
    events.SecretsReplaced,
)
"""Events that may be recorded while no process drives the run."""
FINAL = (StopReason.SATISFIED, StopReason.CANCELLED)


@dataclass
class Oracle:
    """Looks at one record after the other; `judge` gives what is wrong with it, empty for nothing."""

    plan: events.RunRules | None = None
    risk: str = "low"
    ended: events.RunEnded | None = None
    round: int = 0
    working: bool = False
    step: str = ""
    calls: set[str] = field(default_factory=set)
    cut: set[str] = field(default_factory=set)
    observations: int = 0
    requested: dict[str, str] = field(default_factory=dict)
    questions: set[str] = field(default_factory=set)
    green: bool = False
    satisfied: bool = False
    outdated: bool = False
    offered: events.ChangedChecks | None = None
    accepted: bool = False
    failed: str = ""
    waits: bool = False
    seen: int = 0

    def judge(self, record: Record) -> str:
        """What is wrong with the record in its place."""
        event = record.event
        self.seen += 1
        if record.seq != self.seen:
            return f"event {record.seq} stands at place {self.seen}"
        if (self.seen == 1) != isinstance(event, events.GoalCreated):
            return "goal_created is the first event and no other"
        seen_again = (
            isinstance(event, events.SnapshotTaken) and event.moment == "resumed"
        )
        cancels = (
            isinstance(event, events.RunEnded) and event.status is GoalStatus.CANCELLED
        )
        final = self.ended is not None and self.ended.status is GoalStatus.COMPLETE
        if self.ended is not None and not (
            isinstance(event, AFTER_THE_END) or seen_again or (cancels and not final)
        ):
            return f"{event.type} after {self.ended.type}"
        return self._numbered(event) or self._waited(event) or self._in_order(event)

    def _waited(self, event: events.Event) -> str:
        """What is wrong with an event about a failure or a wait, or with one that is recorded meanwhile."""
        while_waiting = (
            events.WaitEnded,
            events.RunEnded,
            *AFTER_THE_END,
            events.SnapshotTaken,
            events.NoteAdded,
        )
        if self.waits and not isinstance(event, while_waiting):
            return f"{event.type} during a wait"
        match event:
            case events.WorkFailed():
                if event.account == "agent" and not self.working:
                    return "the agent fails outside of a round"
                self.failed, self.calls = (
                    event.account,
                    self.calls if event.account != "agent" else set(),
                )
            case events.WaitStarted():
                if self.failed != event.account:
                    return f"a wait for the {event.account}, which has not failed"
                self.waits = True
            case events.WaitEnded():
                if not self.waits:
                    return "the end of a wait that has not begun"
                self.waits, self.failed = False, ""
            case events.AgentSwitched():
                if self.failed != "agent":
                    return "another agent takes over, although the agent has not failed"
                self.failed = ""
            case events.RunResumed():
                # Whether the run waits on depends on its rules.
                self.waits = self.waits and event.plan.wait != 0
            case _:
                pass
        return ""

    def _numbered(self, event: events.Event) -> str:
        seen = list(observations_of(event))
        for observation in seen:
            self.observations += 1
            if observation.id != f"o{self.observations}":
                return f"{observation.id} where o{self.observations} was due"
        return ""

    def _in_order(self, event: events.Event) -> str:  # noqa: C901  one arm per kind of event
        match event:
            case events.GoalCreated():
                self.plan, self.risk = event.plan, event.goal.risk_class
            case events.RunResumed():
                if self.ended is not None and self.ended.stop_reason in FINAL:
                    return "a final run goes on"
                self.ended, self.step, self.cut = None, "", set(event.cut)
            case events.RoundStarted():
                if self.working or event.round != self.round + 1:
                    return f"round {event.round} begins after round {self.round}"
                self.round, self.working = event.round, True
                self.green = self.satisfied = self.accepted = self.outdated = False
                self.offered = None
            case events.RefinementStarted():
                if self.working or event.round != self.round or self.step:
                    return f"a refinement of round {event.round} begins in round {self.round}"
                self.working = True
            case events.CritiqueStarted():
                self.step = f"critique-{event.round}"
            case events.CritiqueFinished():
                if self.working or self.step != f"critique-{event.round}":
                    return f"a critique of round {event.round} in step {self.step or 'none'}"
                self.step = ""
            case events.RoundFinished():
                if (
                    not self.working
                    or event.round != self.round
                    or self.calls - self.cut
                ):
                    return (
                        f"round {event.round} ends with {self.calls or 'nothing'} open"
                    )
                self.working, self.calls = False, set()
            case (
                events.ToolCalled()
                | events.ToolResultRecorded()
                | events.PlanProposed()
            ):
                return self._work(event)
            case events.StepStarted():
                self.step = event.step_id
            case events.AuditStarted():
                self.step = f"audit-{event.round}"
            case events.ValidatorsFinished() | events.VerdictRecorded():
                return self._check(event)
            case events.ChecksReviewStarted():
                self.step = f"review_checks-{event.round}"
            case events.ChecksReviewed():
                return self._review(event)
            case events.WorkspaceChanged():
                if self.working:
                    return "the workspace is compared with what was checked while the agent works"
                self.outdated = True
            case events.ApprovalRequested() | events.ApprovalRecorded():
                return self._approval(event)
            case events.QuestionOpened():
                self.questions.add(event.question)
            case events.QuestionAnswered():
                if event.question not in self.questions:
                    return "an answer to no open question"
                self.questions.remove(event.question)
            case events.RunEnded():
                self.ended = event
                return self._complete() if event.status is GoalStatus.COMPLETE else ""
            case _:
                pass
        return ""

    def _work(
        self, event: events.ToolCalled | events.ToolResultRecorded | events.PlanProposed
    ) -> str:
        if not self.working:
            return f"{event.type} outside of a round"
        match event:
            case events.ToolCalled():
                if event.tool_call_id in self.calls:
                    return (
                        f"{event.tool_call_id} is called again before it has a result"
                    )
                refused = self.requested.get(event.tool_call_id)
                if refused == "":
                    return f"{event.tool_call_id} runs before it is approved"
                self.calls.add(event.tool_call_id)
            case events.ToolResultRecorded():
                if (
                    event.tool_call_id not in self.calls
                    or event.evidence_ref != event.observation.id
                ):
                    return f"a result of {event.tool_call_id}, which has not begun"
                self.calls.remove(event.tool_call_id)
            case events.PlanProposed():
                known = {f"o{number}" for number in range(1, self.observations + 1)}
                if not known.issuperset(event.completed.values()):
                    return "a completed step rests on nothing"
        return ""

    def _check(self, event: events.ValidatorsFinished | events.VerdictRecorded) -> str:
        name = {"validators_finished": "validate", "verdict_recorded": "audit"}[
            event.type
        ]
        if self.working or self.step != f"{name}-{event.round}":
            return f"{event.type} of round {event.round} in step {self.step or 'none'}"
        self.step = ""
        match event:
            case events.ValidatorsFinished():
                self.outdated = False
                passed = all(result.passed for result in event.results)
                self.green = passed and not event.refusal and not event.leaked
                self.offered = event.changed_checks
            case events.VerdictRecorded():
                self.satisfied = event.verdict.complete
        return ""

    def _review(self, event: events.ChecksReviewed) -> str:
        if (
            self.step != f"review_checks-{event.round}"
            or self.offered is None
            or event.key != self.offered.key
        ):
            return (
                f"a review of checks that did not change, in step {self.step or 'none'}"
            )
        self.step = ""
        if event.decision == "accepted":
            self.green = all(item.passed for item in self.offered.results)
        return ""

    def _approval(
        self, event: events.ApprovalRequested | events.ApprovalRecorded
    ) -> str:
        if isinstance(event, events.ApprovalRequested):
            if event.approval_id in self.requested:
                return f"{event.approval_id} is asked for twice"
            self.requested[event.approval_id] = ""
            self.requested[event.tool_call_id or event.kind] = ""
            self._asked = event
            if event.kind == "checks" and (
                self.offered is None or event.snapshot != self.offered.key
            ):
                return f"{event.approval_id} is about checks that did not change"
            return ""
        if self.requested.get(event.approval_id) != "":
            return f"{event.approval_id} is decided without being asked for, or twice"
        self.requested[event.approval_id] = event.decision
        self.requested[self._asked.tool_call_id or self._asked.kind] = event.decision
        self.accepted = self._asked.kind == "complete" and event.decision == "approved"
        if self._asked.kind == "checks" and event.decision == "approved":
            self.green = self.offered is not None and all(
                item.passed for item in self.offered.results
            )
        return ""

    def _complete(self) -> str:
        plan = self.plan or events.RunRules()
        if self.round == 0:
            return ""
        missing = [
            *(["green validators"] if plan.validators and not self.green else []),
            *(["a verdict"] if plan.has_judge and not self.satisfied else []),
            *(["the workspace that was checked"] if self.outdated else []),
            *(["a person's word"] if self._asks() and not self.accepted else []),
        ]
        return f"complete without {', '.join(missing)}" if missing else ""

    def _asks(self) -> bool:
        return self.risk in ("high", "critical") or (
            self.plan is not None and "complete" in self.plan.approvals.require
        )


def faults(records: Iterable[Record]) -> list[str]:
    """What is wrong with each record in its place; an entry for each, empty for nothing."""
    oracle = Oracle()
    return [oracle.judge(record) for record in records]

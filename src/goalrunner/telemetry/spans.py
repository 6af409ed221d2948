"""The spans of a run, made of its events.

A session of a run is the outermost span. In it are the rounds; in a round the turn of
the agent and the checks; in a turn its tool calls and model calls. A span begins and
ends at the times of its events, so what the log does not know has no span.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    Tracer,
    set_span_in_context,
)

from goalrunner.core import events
from goalrunner.core.outcome import GoalStatus, Usage
from goalrunner.core.verdict import ValidatorResult
from goalrunner.telemetry import attributes as facts
from goalrunner.telemetry import conventions as names
from goalrunner.telemetry.attributes import Attributes, RunFacts, Value, present
from goalrunner.telemetry.content import NO_CONTENT, SentContent, in_unicode
from goalrunner.telemetry.trace_context import SessionTrace

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NO_SPAN = SpanContext(0, 0, is_remote=False)

_MESSAGES = {"user": names.INPUT_MESSAGES, "assistant": names.OUTPUT_MESSAGES}
"""The attributes with the last message of a role."""

_CONTAINERS = ("session", "round", "turn", "check")
"""Keys of spans with others inside, the outermost first."""

_CHAT_STARTS = (
    events.RunResumed,
    events.RoundStarted,
    events.RefinementStarted,
    events.UsageRecorded,
    events.ToolResultRecorded,
    events.CritiqueStarted,
    events.AuditStarted,
    events.ChecksReviewStarted,
    events.StepStarted,
    events.WaitEnded,
)
"""Events after which a model is asked: the log has no event for the question itself."""


def nanoseconds(at: str) -> int:
    """Return a time of the log in nanoseconds since 1970."""
    since = datetime.fromisoformat(at) - _EPOCH
    # A float has too few digits for microseconds since 1970.
    microseconds = since // timedelta(microseconds=1)
    return microseconds * 1000


class RunSpans:
    """Makes the spans of one session of a run."""

    def __init__(
        self,
        tracer: Tracer,
        run: RunFacts,
        trace: SessionTrace,
        content: SentContent = NO_CONTENT,
    ) -> None:
        """`content`: what is sent of prompts and outputs."""
        self._tracer = tracer
        self._run = run
        self._agent = run.agent
        self._trace = trace
        self._content = content
        # The open spans in the order in which they began.
        self._open: dict[str, Span] = {}
        self._now = 0
        self._asked = 0
        self._round = 0
        self._turn_usage = Usage()
        self._usage = Usage()

    @property
    def session(self) -> SpanContext | None:
        """The span of the session; None before the first event and after the last."""
        span = self._open.get("session")
        return span.get_span_context() if span is not None else None

    def on_record(self, record: events.Record) -> None:
        """Begin and end the spans of an event."""
        event = record.event
        self._now = nanoseconds(record.at)
        if "session" not in self._open:
            self._start_session(event)
        self._on_run(event)
        self._on_turn(event)
        self._on_check(event)
        self._on_pause(event)
        is_prompt = (
            isinstance(event, events.MessageRecorded) and event.role != "assistant"
        )
        if is_prompt or isinstance(event, _CHAT_STARTS):
            self._asked = self._now

    def close(self) -> None:
        """End the open spans: the process ends, and the run may go on in another."""
        self._end("session", {"goal.status": str(GoalStatus.RUNNING)})

    # The run as a whole.

    def _start_session(self, event: events.Event) -> None:
        # Without a parent, a span that the calling program has open is not one.
        parent = self._trace.parent or _NO_SPAN
        links: list[Link] = []
        if self._trace.previous is not None:
            links.append(Link(self._trace.previous, {"goal.link": "previous session"}))
        self._asked = self._now
        self._open["session"] = self._tracer.start_span(
            f"{names.WORKFLOW} goal",
            set_span_in_context(NonRecordingSpan(parent)),
            attributes={
                **self._common(names.WORKFLOW),
                names.AGENT_NAME: "goal",
                "goal.resumed": isinstance(event, events.RunResumed),
            },
            links=links,
            start_time=self._now,
        )

    def _on_run(self, event: events.Event) -> None:
        session = self._open["session"]
        match event:
            case events.GoalCreated():
                objective = self._content.text(event.goal.description)
                session.set_attributes(present({"goal.objective": objective}))
            case events.RunStarted():
                session.set_attributes(facts.started_attributes(event, self._content))
            case events.RunResumed():
                session.set_attributes(
                    {"goal.version": event.version, "goal.sandbox": event.sandbox}
                )
            case events.WorkFailed():
                self._event(
                    "goal.work_failed", facts.failure_attributes(event, self._content)
                )
            case events.AgentSwitched():
                self._agent = event.agent
                self._event("goal.agent_switched", {names.AGENT_NAME: event.agent})
            case events.LimitReached():
                reason = str(event.end.stop_reason)
                self._event("goal.limit_reached", {"goal.stop_reason": reason})
            case events.BlockReported() | events.WorkspaceChanged():
                self._event(f"goal.{event.type}", {})
            case events.RunEnded():
                self._end_run(event)

    def _end_run(self, event: events.RunEnded) -> None:
        if "round" in self._open:
            self._end("round", {"goal.decision": str(event.status)})
        ended = facts.ended_attributes(event, self._content)
        session = self._open["session"]
        if event.status is GoalStatus.COMPLETE:
            session.set_status(Status(StatusCode.OK))
        totals: dict[str, Value | None] = {"goal.rounds": self._round}
        # Without a report, tokens and dollars are unknown.
        if self._usage != Usage():
            totals["goal.tokens"] = self._usage.known_tokens
            totals["goal.cost_usd"] = self._usage.cost_usd
        self._end("session", {**ended, **present(totals)})

    # The rounds, and the agent in them.

    def _on_turn(self, event: events.Event) -> None:
        match event:
            case events.RoundStarted():
                self._start_round(event)
            case events.RefinementStarted():
                self._start_turn(event.round, "refine")
            case events.RoundFinished():
                self._end_turn(event)
            case events.ToolCalled():
                self._start_tool(event)
            case events.ToolResultRecorded():
                self._end_tool(event)
            case events.UsageRecorded():
                self._count(event)
            case events.MessageRecorded():
                self._read_message(event)
            case events.SessionOpened() if "turn" in self._open:
                model = {names.RESPONSE_MODEL: event.session.model}
                self._open["turn"].set_attributes(present(model))

    def _start_round(self, event: events.RoundStarted) -> None:
        # A round that waited, or changed its agent, goes on.
        if self._round != event.round or "round" not in self._open:
            if "round" in self._open:
                self._end("round", {"goal.decision": event.prompt})
            self._round = event.round
            self._start("round", f"round {event.round}", {"goal.round": event.round})
        self._start_turn(event.round, event.prompt)

    def _start_turn(self, number: int, prompt: events.PromptKind) -> None:
        if "turn" in self._open:
            self._end("turn", {names.ERROR: "interrupted"})
        self._turn_usage = Usage()
        self._start(
            "turn",
            f"{names.AGENT} {self._agent}",
            {
                **self._common(names.AGENT),
                **self._run.model_of("agent"),
                names.AGENT_NAME: self._agent,
                "goal.round": number,
                "goal.prompt": prompt,
            },
        )

    def _end_turn(self, event: events.RoundFinished) -> None:
        if "turn" not in self._open:
            return
        used: Attributes = {}
        if not self._run.calls_models:
            used = facts.usage_attributes(self._turn_usage)
        self._end("turn", {**facts.turn_attributes(event), **used})

    def _start_tool(self, event: events.ToolCalled) -> None:
        attributes = {
            **self._common(names.TOOL),
            names.TOOL_NAME: event.tool,
            names.TOOL_CALL: event.tool_call_id,
            names.TOOL_ARGUMENTS: self._content.text(event.summary),
        }
        key = f"tool {event.tool_call_id}"
        self._start(key, f"{names.TOOL} {event.tool}", attributes)

    def _end_tool(self, event: events.ToolResultRecorded) -> None:
        observation = event.observation
        attributes: Attributes = {
            "goal.observation": observation.id,
            "goal.tool.reported": bool(observation.reported_by),
            names.TOOL_RESULT: self._content.output(observation.output),
        }
        self._end(f"tool {event.tool_call_id}", attributes)

    def _count(self, event: events.UsageRecorded) -> None:
        self._usage += event.usage
        if event.account == "agent" and not self._run.calls_models:
            # One report is about many calls, or a whole turn.
            self._turn_usage += event.usage
            return
        model = self._run.model_of(event.account)
        name = f"{names.CHAT} {model.get(names.MODEL, '')}".rstrip()
        attributes = {
            **self._common(names.CHAT),
            **model,
            **facts.usage_attributes(event.usage),
            "goal.account": event.account,
        }
        span = self._child(name, attributes, self._asked, SpanKind.CLIENT)
        span.end(self._now)

    def _read_message(self, event: events.MessageRecorded) -> None:
        """Add the prompt and the last answer to the turn."""
        turn = self._open.get("turn")
        name = _MESSAGES.get(event.role)
        if turn is not None and name is not None and event.has_text:
            text = self._content.message(event.role, event.text)
            turn.set_attributes(present({name: text}))

    # The checks of a round.

    def _on_check(self, event: events.Event) -> None:
        match event:
            case events.StepStarted():
                name = event.step_id.partition("-")[0]
                self._start_check(name)
            case events.CritiqueStarted():
                self._start_check("critique")
            case events.AuditStarted():
                self._start_check("audit")
            case events.ChecksReviewStarted():
                self._start_check("review")
            case events.BaselineTaken():
                self._end_baseline(event)
            case events.ValidatorsFinished():
                self._add_validators(event.results)
                self._end_check(facts.check_attributes(event, self._content))
            case events.CritiqueFinished():
                self._event(
                    names.EVALUATION, facts.critique_attributes(event, self._content)
                )
                self._end_check({names.ERROR: "critic" if event.problem else ""})
            case events.ChecksReviewed():
                self._end_check({"goal.decision": event.decision})
            case events.AuditFailed():
                self._end_check({names.ERROR: event.kind})
            case events.VerdictRecorded():
                self._end_audit(event)
            case events.ConfirmationRecorded():
                self._end_check({"goal.confirmed": event.confirmed})

    def _start_check(self, name: str) -> None:
        if "check" in self._open:
            self._end("check", {})
        self._start("check", name, {"goal.round": self._round})

    def _end_check(self, attributes: Mapping[str, Value]) -> None:
        if "check" in self._open:
            self._end("check", attributes)

    def _end_baseline(self, event: events.BaselineTaken) -> None:
        is_new = event.age is None
        if is_new:
            self._add_validators(event.results)
        self._end_check({"goal.decision": event.standing, "goal.reused": not is_new})

    def _end_audit(self, event: events.VerdictRecorded) -> None:
        self._event(names.EVALUATION, facts.verdict_attributes(event, self._content))
        self._end_check(
            {
                "goal.decision": "complete" if event.verdict.complete else "incomplete",
                "goal.score": event.verdict.score,
                "goal.citations.checked": event.citations_checked,
                "goal.citations.refused": len(event.refusals),
            }
        )

    def _add_validators(self, results: tuple[ValidatorResult, ...]) -> None:
        """Add a span for each result: it begins with the check, as far as is known."""
        check = self._open.get("check")
        began = getattr(check, "start_time", None) or self._now
        for result in results:
            attributes = facts.validator_attributes(result, self._content)
            span = self._child(f"validator {result.name}", attributes, began)
            ended = began + int(result.duration * 1e9)
            span.end(min(ended, self._now))
            self._event(
                names.EVALUATION, facts.evaluation_attributes(result, self._content)
            )

    # Waits, and what a person decides.

    def _on_pause(self, event: events.Event) -> None:
        match event:
            case events.WaitStarted():
                attributes = {
                    "goal.account": event.account,
                    "goal.wait.kind": event.kind,
                    "goal.wait.number": event.number,
                }
                self._start("wait", f"wait {event.kind}", attributes)
            case events.WaitEnded():
                self._end("wait", {})
            case events.ApprovalRequested():
                self._start_approval(event)
            case events.ApprovalRecorded():
                self._end_approval(event)
            case events.QuestionOpened():
                self._start("question", "question", {"goal.asked_by": event.by})
            case events.QuestionAnswered():
                self._end("question", {"goal.decision": "answered"})

    def _start_approval(self, event: events.ApprovalRequested) -> None:
        attributes: Attributes = {
            "goal.approval.id": event.approval_id,
            "goal.approval.kind": event.kind,
            "goal.approval.action": self._content.text(event.action),
        }
        key = f"approval {event.approval_id}"
        self._start(key, f"approval {event.kind}", attributes)

    def _end_approval(self, event: events.ApprovalRecorded) -> None:
        attributes = {"goal.decision": event.decision}
        key = f"approval {event.approval_id}"
        if key not in self._open:
            # An earlier session asked for it.
            self._event("goal.approval_recorded", attributes)
        self._end(key, attributes)

    # Spans.

    def _common(self, operation: str) -> dict[str, Value]:
        run_id = self._run.short_id
        return {
            names.OPERATION: operation,
            names.CONVERSATION: run_id,
            "goal.run": run_id,
        }

    def _start(self, key: str, name: str, attributes: Mapping[str, Value]) -> None:
        # A second event of the same kind means that the end of the first was lost.
        self._end(key, {})
        self._open[key] = self._child(name, attributes, self._now)

    def _child(
        self,
        name: str,
        attributes: Mapping[str, Value],
        start: int,
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> Span:
        """Return a span in the innermost span that contains others."""
        return self._tracer.start_span(
            in_unicode(name),
            set_span_in_context(self._innermost()),
            kind,
            present({"goal.run": self._run.short_id, **attributes}),
            start_time=start,
        )

    def _innermost(self) -> Span:
        open_keys = [key for key in _CONTAINERS if key in self._open]
        return self._open[open_keys[-1]]

    def _event(self, name: str, attributes: Mapping[str, Value]) -> None:
        self._innermost().add_event(name, present(attributes), self._now)

    def _end(self, key: str, attributes: Mapping[str, Value]) -> None:
        """End a span, and those that began in it, if it is open."""
        if key not in self._open:
            return
        keys = list(self._open)
        if key in _CONTAINERS:
            # The end of what began later was lost, or the process ends.
            for inner in reversed(keys[keys.index(key) + 1 :]):
                self._open.pop(inner).end(self._now)
        span = self._open.pop(key)
        span.set_attributes(present(attributes))
        if attributes.get(names.ERROR):
            span.set_status(Status(StatusCode.ERROR))
        span.end(self._now)

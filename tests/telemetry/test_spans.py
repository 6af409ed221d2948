"""The spans of a run, from rows of events."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

pytest.importorskip("opentelemetry.sdk", reason="needs the extra telemetry")

from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext, TraceFlags

from goalrunner.core import events
from goalrunner.core.critic import CritiqueFinished, CritiqueStarted
from goalrunner.core.observation import DiffStat, Observation
from goalrunner.core.outcome import AgentSession, StopReason, Usage
from goalrunner.core.verdict import GoalVerdict, ValidatorResult
from goalrunner.telemetry.attributes import RunFacts
from goalrunner.telemetry.spans import RunSpans, nanoseconds
from goalrunner.telemetry.trace_context import RunIds, SessionTrace
from tests.support.events import any_event

FACTS = RunFacts(
    "k3f9-make-parse",
    "claude",
    {"agent": "claude", "judge": "bedrock/nova"},
    calls_models=False,
)
BUILT_IN = RunFacts(
    "k3f9-make-parse", "built-in", {"agent": "openai/gpt-5"}, calls_models=True
)
CREATED = events.GoalCreated(
    goal=events.GoalRecord(
        goal_id="g", run_id="r", description="SECRET PLAN", created_at="", updated_at=""
    ),
    plan=events.RunRules(),
)
TRACE = SessionTrace(7)
ENDED = events.RunEnded(stop_reason=StopReason.SATISFIED, message="SECRET END")


def spans_of(
    happened: Sequence[events.Event],
    facts: RunFacts = FACTS,
    trace: SessionTrace = TRACE,
) -> list[ReadableSpan]:
    """Return the spans in the order in which they began. Event number n is at second n."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(
        id_generator=RunIds(trace.trace_id), shutdown_on_exit=False
    )
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    spans = RunSpans(provider.get_tracer("test"), facts, trace)
    for number, event in enumerate(happened):
        at = f"2026-11-27T10:00:{number:02d}.000000+00:00"
        spans.on_record(events.Record(seq=number + 1, at=at, event=event))
    spans.close()
    # Of spans with the same times, the outer one ends last.
    ended = reversed(exporter.get_finished_spans())
    return sorted(ended, key=lambda span: (span.start_time or 0, -(span.end_time or 0)))


def tree(spans: Sequence[ReadableSpan]) -> list[str]:
    """Return a line for each span: its depth, its name, and its first and last second."""
    zero = nanoseconds("2026-11-27T10:00:00+00:00")
    depths: dict[int, int] = {}
    lines = []
    for span in spans:
        assert span.context is not None
        depth = depths[span.parent.span_id] + 1 if span.parent else 0
        depths[span.context.span_id] = depth
        first, last = (
            (time - zero) // 10**9
            for time in (span.start_time or 0, span.end_time or 0)
        )
        lines.append(f"{'  ' * depth}{span.name} {first}-{last}")
    return lines


def named(spans: Sequence[ReadableSpan], name: str) -> ReadableSpan:
    (span,) = [span for span in spans if span.name == name]
    return span


def tool(number: int) -> tuple[events.ToolCalled, events.ToolResultRecorded]:
    call = f"c{number}"
    observation = Observation(
        id=f"o{number}", source="shell", command="SECRET COMMAND", round=1
    )
    return (
        events.ToolCalled(tool_call_id=call, tool="shell", summary="SECRET COMMAND"),
        events.ToolResultRecorded(
            tool_call_id=call,
            evidence_ref=f"o{number}",
            observation=observation,
            duration=1,
        ),
    )


def used(account: events.Account, tokens: int = 10) -> events.UsageRecorded:
    usage = Usage(
        input_tokens=tokens, output_tokens=1, cost_usd=0.5, known_cost_usd=0.5, calls=1
    )
    return events.UsageRecorded(account=account, usage=usage)


def validated(*, passed: bool, number: int = 1) -> events.ValidatorsFinished:
    result = ValidatorResult(
        name="tests",
        passed=passed,
        reason="passed" if passed else "red",
        feedback="SECRET OUTPUT",
        command="SECRET COMMAND",
        exit_code=0,
        duration=0.5,
    )
    return events.ValidatorsFinished(
        round=number, results=(result,), labels=("flaky: SECRET",)
    )


ROUND = events.RoundStarted(round=1, prompt="first")
TURN_ENDED = events.RoundFinished(
    round=1, steps=2, changes=DiffStat(files=1, added=3, removed=1)
)
VALIDATE = events.StepStarted(step_id="validate-1", description="run 1 validator")
VERDICT = events.VerdictRecorded(
    round=1,
    verdict=GoalVerdict(score=0.5, complete=False, missing="SECRET MISSING"),
    citations_checked=3,
)
WAIT = events.WaitStarted(
    account="agent", kind="limit", reason="SECRET", until="2026-11-27T11:00:00+00:00"
)
FAILED = events.WorkFailed(
    account="agent",
    kind="limit",
    reason="SECRET LIMIT",
    stop_reason=StopReason.AGENT_FAILED,
    message="SECRET",
)
REQUESTED = events.ApprovalRequested(
    approval_id="a1", kind="shell", action="SECRET COMMAND", rule=""
)
APPROVED = events.ApprovalRecorded(approval_id="a1", decision="approved", by="SECRET")


@pytest.mark.parametrize(
    ("happened", "lines"),
    [
        ([CREATED, ENDED], ["invoke_workflow goal 0-1"]),
        (
            [
                CREATED,
                ROUND,
                *tool(1),
                TURN_ENDED,
                VALIDATE,
                validated(passed=True),
                ENDED,
            ],
            [
                "invoke_workflow goal 0-7",
                "  round 1 1-7",
                "    invoke_agent claude 1-4",
                "      execute_tool shell 2-3",
                "    validate 5-6",
                "      validator tests 5-5",
            ],
        ),
        (
            [
                CREATED,
                ROUND,
                TURN_ENDED,
                events.AuditStarted(round=1),
                used("judge"),
                VERDICT,
                ENDED,
            ],
            [
                "invoke_workflow goal 0-6",
                "  round 1 1-6",
                "    invoke_agent claude 1-2",
                "    audit 3-5",
                "      chat nova 3-4",
            ],
        ),
        # A round that waits goes on, and its turn begins anew.
        (
            [
                CREATED,
                ROUND,
                FAILED,
                WAIT,
                events.WaitEnded(),
                events.RoundStarted(round=1, prompt="resumed"),
                ENDED,
            ],
            [
                "invoke_workflow goal 0-6",
                "  round 1 1-6",
                "    invoke_agent claude 1-5",
                "      wait limit 3-4",
                "    invoke_agent claude 5-6",
            ],
        ),
        (
            [
                CREATED,
                ROUND,
                REQUESTED,
                APPROVED,
                TURN_ENDED,
                events.RoundStarted(round=2, prompt="retry"),
                ENDED,
            ],
            [
                "invoke_workflow goal 0-6",
                "  round 1 1-5",
                "    invoke_agent claude 1-4",
                "      approval shell 2-3",
                "  round 2 5-6",
                "    invoke_agent claude 5-6",
            ],
        ),
        # The end of a tool call is missing: the process was cut.
        (
            [CREATED, ROUND, tool(1)[0]],
            [
                "invoke_workflow goal 0-2",
                "  round 1 1-2",
                "    invoke_agent claude 1-2",
                "      execute_tool shell 2-2",
            ],
        ),
        # What a session goes on with began in an earlier one.
        (
            [
                events.RunResumed(plan=events.RunRules(), version="1"),
                tool(1)[1],
                APPROVED,
                validated(passed=True),
                ENDED,
            ],
            ["invoke_workflow goal 0-4", "  validator tests 3-3"],
        ),
    ],
)
def test_spans_lie_in_each_other_and_last_as_long_as_their_events(
    happened: list[events.Event], lines: list[str]
) -> None:
    assert tree(spans_of(happened)) == lines


def test_a_call_of_the_built_in_agent_lasts_from_what_it_answers_to_its_usage() -> None:
    spans = spans_of(
        [CREATED, ROUND, used("agent"), *tool(1), used("agent"), TURN_ENDED, ENDED],
        BUILT_IN,
    )
    assert [line.strip() for line in tree(spans) if "chat" in line] == [
        "chat gpt-5 1-2",
        "chat gpt-5 4-5",
    ]
    chat = next(span for span in spans if span.name == "chat gpt-5")
    assert chat.kind.name == "CLIENT"
    assert dict(chat.attributes or {}) == {
        "goal.run": "k3f9",
        "goal.account": "agent",
        "goal.cost_usd": 0.5,
        "gen_ai.operation.name": "chat",
        "gen_ai.conversation.id": "k3f9",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-5",
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 1,
    }


def test_the_usage_of_an_external_agent_is_that_of_its_turn() -> None:
    spans = spans_of(
        [CREATED, ROUND, used("agent", 5), used("agent", 7), TURN_ENDED, ENDED]
    )
    turn = dict(named(spans, "invoke_agent claude").attributes or {})
    assert turn["gen_ai.usage.input_tokens"] == 12
    assert turn["goal.cost_usd"] == 1.0
    assert turn["gen_ai.agent.name"] == "claude"
    assert turn["goal.changes.added"] == 3
    session = dict(named(spans, "invoke_workflow goal").attributes or {})
    assert (
        session["goal.tokens"],
        session["goal.cost_usd"],
        session["goal.rounds"],
    ) == (14, 1.0, 1)


def test_results_are_events_of_evaluations() -> None:
    critique = CritiqueFinished(round=1, score=0.25, feedback="SECRET")
    spans = spans_of(
        [
            CREATED,
            ROUND,
            TURN_ENDED,
            CritiqueStarted(round=1),
            critique,
            VALIDATE,
            validated(passed=False),
            events.AuditStarted(round=1),
            VERDICT,
        ]
    )
    results = [dict(event.attributes or {}) for span in spans for event in span.events]
    assert results == [
        {"gen_ai.evaluation.name": "critic", "gen_ai.evaluation.score.value": 0.25},
        {
            "gen_ai.evaluation.name": "tests",
            "gen_ai.evaluation.score.value": 0.0,
            "gen_ai.evaluation.score.label": "fail",
        },
        {
            "gen_ai.evaluation.name": "judge",
            "gen_ai.evaluation.score.value": 0.5,
            "gen_ai.evaluation.score.label": "incomplete",
        },
    ]
    check = dict(named(spans, "validate").attributes or {})
    assert (check["goal.validators.red"], check["goal.labels"]) == (1, ("flaky",))


@pytest.mark.parametrize(
    ("reason", "code", "status"),
    [
        (StopReason.SATISFIED, "OK", "complete"),
        (StopReason.MAX_ITERATIONS, "UNSET", "capped"),
        (StopReason.AGENT_FAILED, "ERROR", "failed"),
    ],
)
def test_a_failed_run_is_an_error_and_a_complete_one_is_ok(
    reason: StopReason, code: str, status: str
) -> None:
    (session,) = spans_of([CREATED, events.RunEnded(stop_reason=reason)])
    assert session.status.status_code.name == code
    assert dict(session.attributes or {})["goal.status"] == status


def test_without_content_no_text_of_goal_models_and_persons_is_in_a_span() -> None:
    spans = spans_of(
        [
            CREATED,
            ROUND,
            FAILED,
            WAIT,
            events.WaitEnded(),
            REQUESTED,
            APPROVED,
            *tool(1),
            events.BlockReported(reason="SECRET"),
            TURN_ENDED,
            VALIDATE,
            validated(passed=False),
            events.AuditStarted(round=1),
            VERDICT,
            events.QuestionOpened(question="SECRET"),
            events.NoteAdded(note="SECRET"),
            events.UserSaid(text="SECRET"),
            ENDED,
        ]
    )
    assert "SECRET" not in "".join(span.to_json() for span in spans)
    assert "make-parse" not in "".join(span.to_json() for span in spans)


def test_a_session_is_in_the_trace_of_its_run_and_links_to_the_session_before() -> None:
    parent = SpanContext(9, 5, is_remote=True, trace_flags=TraceFlags(1))
    previous = SpanContext(9, 6, is_remote=True)
    (session,) = spans_of([CREATED, ENDED], trace=SessionTrace(9, parent, previous))
    assert session.context is not None
    assert session.context.trace_id == 9
    assert session.parent == parent
    assert [link.context.span_id for link in session.links] == [6]


def test_a_span_that_the_program_has_open_is_no_parent() -> None:
    provider = TracerProvider(shutdown_on_exit=False)
    with provider.get_tracer("program").start_as_current_span("request"):
        (session,) = spans_of([CREATED, ENDED])
    assert session.parent is None
    assert session.context is not None
    assert session.context.trace_id == 7


def test_a_turn_has_the_model_that_an_external_agent_reports() -> None:
    opened = events.SessionOpened(
        session=AgentSession(agent="claude", id="s1", model="opus")
    )
    (turn,) = [
        span
        for span in spans_of([CREATED, ROUND, opened, ENDED])
        if span.name.startswith("invoke_agent")
    ]
    assert dict(turn.attributes or {})["gen_ai.response.model"] == "opus"


FRAMES: list[events.Event] = [
    ROUND,
    TURN_ENDED,
    VALIDATE,
    WAIT,
    events.WaitEnded(),
    REQUESTED,
    APPROVED,
    events.AuditStarted(round=1),
]


@given(st.lists(st.sampled_from(FRAMES) | any_event, max_size=20))
def test_each_span_of_any_events_ends_and_can_be_sent(
    happened: list[events.Event],
) -> None:
    spans = spans_of([CREATED, *happened])
    assert encode_spans(spans).ByteSize()
    ids = {span.context.span_id for span in spans if span.context}
    assert len(ids) == len(spans)
    assert all(span.parent is None or span.parent.span_id in ids for span in spans)
    assert all((span.start_time or 0) <= (span.end_time or 0) for span in spans)

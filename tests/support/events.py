"""Events for tests: a few plain ones, and strategies that make any of a kind."""

from __future__ import annotations

from hypothesis import strategies as st

from goalrunner.core.events import (
    CritiqueFinished,
    Event,
    GoalCreated,
    GoalRecord,
    MessageRecorded,
    RunEnded,
    RunRules,
    ToolCalled,
    ToolResultRecorded,
    UsageRecorded,
    ValidatorsFinished,
    VerdictRecorded,
)
from goalrunner.core.observation import ArtifactRef, Observation, TranscriptRef
from goalrunner.core.outcome import StopReason, Usage
from goalrunner.core.verdict import (
    Citation,
    CriterionVerdict,
    GoalVerdict,
    ValidatorResult,
)


def tool_called(summary: str = "pytest -q") -> ToolCalled:
    """A small event."""
    return ToolCalled(tool_call_id="call_1", tool="shell", summary=summary)


_text = st.text(st.characters(), max_size=20)
"""Any characters, lone surrogates included."""
_number = st.integers(min_value=0, max_value=10**12)
_money = st.none() | st.floats(min_value=0, max_value=10**6)
_hash = st.integers(min_value=0, max_value=16**64 - 1).map(
    lambda number: f"{number:064x}"
)

_observations = st.builds(
    Observation,
    id=st.integers(min_value=1, max_value=10**6).map(lambda number: f"o{number}"),
    source=_text,
    facts=st.lists(_text, max_size=2).map(tuple),
    command=_text,
    round=_number,
    output=st.none() | st.builds(ArtifactRef, sha256=_hash, size=_number),
)
_verdicts = st.builds(
    GoalVerdict,
    score=st.floats(min_value=0, max_value=1),
    complete=st.just(False),
    missing=_text,
    criteria=st.lists(
        st.builds(
            CriterionVerdict,
            criterion=st.text(min_size=1, max_size=9),
            satisfied=st.booleans(),
            evidence=st.lists(
                st.builds(Citation, observation=_text, quote=_text), max_size=2
            ).map(tuple),
        ),
        max_size=2,
    ).map(tuple),
)
_results = st.builds(
    ValidatorResult,
    name=st.text(min_size=1, max_size=9),
    passed=st.booleans(),
    feedback=_text,
)

any_event: st.SearchStrategy[Event] = st.one_of(
    st.builds(
        GoalCreated,
        goal=st.builds(
            GoalRecord,
            goal_id=_text,
            run_id=_text,
            description=_text,
            created_at=_text,
            updated_at=_text,
        ),
        plan=st.builds(
            RunRules, timeout=_money, validators=st.lists(_text, max_size=3).map(tuple)
        ),
    ),
    st.builds(
        MessageRecorded,
        role=st.sampled_from(["system", "user", "assistant", "tool"]),
        text=st.builds(TranscriptRef, offset=_number, length=_number, sha256=_hash),
    ),
    st.builds(ToolCalled, tool_call_id=_text, tool=_text, summary=_text),
    st.builds(
        ToolResultRecorded,
        tool_call_id=_text,
        evidence_ref=_text,
        observation=_observations,
        summary=_text,
    ),
    st.builds(
        UsageRecorded,
        account=st.sampled_from(["agent", "judge", "critic"]),
        usage=st.builds(
            Usage,
            input_tokens=_number,
            output_tokens=_number,
            cost_usd=_money,
            calls=_number,
        ),
    ),
    st.builds(
        CritiqueFinished,
        round=st.just(1),
        score=st.none() | st.floats(0, 1),
        feedback=_text,
        problem=_text,
    ),
    st.builds(
        VerdictRecorded,
        round=_number,
        verdict=_verdicts,
        refusals=st.lists(_text, max_size=2).map(tuple),
    ),
    st.builds(
        ValidatorsFinished,
        round=_number,
        results=st.lists(_results, max_size=2).map(tuple),
    ),
    st.builds(
        RunEnded,
        message=_text,
        stop_reason=st.sampled_from(StopReason),
        signal=st.none() | _number,
    ),
)
"""Any event of the kinds that hold most: text, numbers, money, nested records."""

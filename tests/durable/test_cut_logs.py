"""A recorded run whose log ends at any record: it folds, and the chat that would be sent is one that providers take."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from goalrunner.agents.chat import ChatConversation, answers_due
from goalrunner.core.agent_ports import Message
from goalrunner.core.decision import decide
from goalrunner.core.events import Record
from goalrunner.core.fold import apply
from goalrunner.core.run_state import RunState
from goalrunner.engine.resumption import Resumption, usage_of_cut_call
from goalrunner.records.artifacts import ArtifactStore
from goalrunner.records.event_log import read_records
from goalrunner.records.redaction import Redactor
from goalrunner.records.transcript_file import read_message
from tests.support.agents import MemoryRecorder, ScriptedModel, said
from tests.support.finished_run import FinishedRun, finish_run


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    return finish_run(tmp_path_factory.mktemp("finished"))


def takeable(chat: Sequence[Message]) -> None:
    """Each call is answered at once and in order, and nothing answers what was not asked."""
    due: list[str] = []
    for message in chat:
        if message["role"] == "tool":
            assert due
            assert message["tool_call_id"] == due.pop(0)
            continue
        assert due == []
        due = [call["id"] for call in message.get("tool_calls") or []]
    assert due == []


def cut_at(
    finished: FinishedRun, number: int, *, fresh_rounds: bool
) -> tuple[RunState, Resumption]:
    state: RunState | None = None
    reader = Resumption(fresh_rounds=fresh_rounds)
    records: list[Record] = list(read_records(finished.folder.events))
    for record in records[: 1 + number % len(records)]:
        state = apply(state, record)
        assert apply(state, record) == state
        reader.add(record)
    assert state is not None
    return state, reader


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(number=st.integers(min_value=0, max_value=10_000), fresh_rounds=st.booleans())
async def test_a_log_that_ends_anywhere_can_be_gone_on_with(
    finished: FinishedRun, tmp_path: Path, number: int, fresh_rounds: bool
) -> None:
    state, reader = cut_at(finished, number, fresh_rounds=fresh_rounds)
    artifacts = ArtifactStore(finished.folder.artifacts, Redactor({}))
    left = reader.read(
        lambda ref: read_message(finished.folder.transcript, ref), artifacts
    )
    decide(state)
    usage_of_cut_call(state, left.chat)
    takeable([*left.chat, *answers_due(left.chat)])

    model, recorder = ScriptedModel(said("ok"), said("ok")), MemoryRecorder(tmp_path)
    conversation = ChatConversation(model)
    conversation.load(left.chat, left.unfinished, recorder)
    await conversation.resume_turn(
        "go on" if state.prompted else "", left.unfinished, recorder
    )
    for request in model.requests:
        takeable(request)
    results = {result.tool_call_id for result in recorder.results}
    assert results.isdisjoint(left.unfinished.results)
    assert not any(
        call in line
        for call in left.unfinished.cut
        for line in recorder.trail
        if line.startswith("called")
    )

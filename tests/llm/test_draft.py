"""The pieces of a stream become one answer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from goalrunner.llm.transport import CallPiece, Draft, Piece, ToolCall, UsageReport


def _draft(*calls: CallPiece) -> Draft:
    draft = Draft()
    for call in calls:
        draft.add(Piece(calls=(call,)))
    return draft


@given(st.lists(st.text()), st.lists(st.lists(st.text(), min_size=1), max_size=4))
def test_text_and_arguments_are_whole_however_they_were_cut(texts: list[str], calls: list[list[str]]) -> None:
    heard: list[str] = []
    draft = Draft(heard.append)
    for text in texts:
        draft.add(Piece(text))
    for index in range(len(calls)):
        draft.add(Piece(calls=(CallPiece(index, id=f"id{index}", name="shell"),)))
    for index, parts in enumerate(calls):
        for part in parts:
            draft.add(Piece(calls=(CallPiece(index, arguments=part),)))
    assert draft.text == "".join(texts) == "".join(heard)
    assert draft.tool_calls() == tuple(
        ToolCall(f"id{index}", "shell", "".join(parts)) for index, parts in enumerate(calls)
    )


def test_calls_with_the_same_index_are_distinguished_by_their_ids() -> None:
    draft = _draft(
        CallPiece(0, id="a", name="shell", arguments="{}"),
        CallPiece(0, id="b", name="read_file", arguments='{"path"'),
        CallPiece(0, arguments=': "x"}'),
    )
    assert draft.tool_calls() == (ToolCall("a", "shell", "{}"), ToolCall("b", "read_file", '{"path": "x"}'))


def test_a_name_that_comes_with_every_piece_is_not_repeated() -> None:
    draft = _draft(CallPiece(0, id="a", name="shell", arguments="{"), CallPiece(0, id="a", name="shell", arguments="}"))
    assert draft.tool_calls() == (ToolCall("a", "shell", "{}"),)


def test_a_call_without_an_id_gets_a_new_one() -> None:
    draft = _draft(CallPiece(0, name="shell", arguments="{}"))
    (first,), (second,) = draft.tool_calls(), draft.tool_calls()
    assert first.id.startswith("call_")
    assert first.id != second.id


def test_a_draft_has_started_once_anything_came() -> None:
    draft = Draft()
    assert not draft.started
    draft.add(Piece(report=UsageReport(1, 0)))
    assert draft.started

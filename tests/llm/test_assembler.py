"""Pieces become the answer that was meant, however they were cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from goalrunner.llm.call import Assembler
from goalrunner.llm.transport import CallPiece, Finish, TextPiece, ToolCall, UsageReport


def _name(number: int) -> str:
    return f"made_{number}"


@given(st.lists(st.text()), st.lists(st.lists(st.text(), min_size=1), max_size=4))
def test_text_and_arguments_are_whole_however_they_were_cut(texts: list[str], calls: list[list[str]]) -> None:
    heard: list[str] = []
    assembler = Assembler(heard.append)
    for text in texts:
        assembler.add(TextPiece(text))
    for index in range(len(calls)):
        assembler.add(CallPiece(index, id=f"id{index}", name="shell"))
    for index, parts in enumerate(calls):
        for part in parts:
            assembler.add(CallPiece(index, arguments=part))
    assert assembler.draft.text == "".join(texts) == "".join(heard)
    assert assembler.calls(_name) == tuple(
        ToolCall(f"id{index}", "shell", "".join(parts)) for index, parts in enumerate(calls)
    )


def test_calls_that_share_an_index_are_told_apart_by_their_ids() -> None:
    assembler = Assembler()
    assembler.add(CallPiece(0, id="a", name="shell", arguments="{}"))
    assembler.add(CallPiece(0, id="b", name="read_file", arguments='{"path"'))
    assembler.add(CallPiece(0, arguments=': "x"}'))
    assert assembler.calls(_name) == (ToolCall("a", "shell", "{}"), ToolCall("b", "read_file", '{"path": "x"}'))


def test_a_name_that_comes_with_every_piece_is_not_repeated() -> None:
    assembler = Assembler()
    assembler.add(CallPiece(0, id="a", name="shell", arguments="{"))
    assembler.add(CallPiece(0, id="a", name="shell", arguments="}"))
    assert assembler.calls(_name) == (ToolCall("a", "shell", "{}"),)


def test_a_call_without_an_id_is_given_one() -> None:
    assembler = Assembler()
    assembler.add(CallPiece(0, name="shell", arguments="{}"))
    assert assembler.calls(_name) == (ToolCall("made_0", "shell", "{}"),)


def test_a_draft_has_started_once_anything_came() -> None:
    assert not Assembler().draft.started
    assembler = Assembler()
    assembler.add(UsageReport(1, 0))
    assembler.add(Finish("stop"))
    assert assembler.draft.started
    assert assembler.draft.finish_reason == "stop"

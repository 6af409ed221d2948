"""The pieces of a stream become one answer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from goalrunner.core.outcome import Usage
from goalrunner.llm.requests import Draft, ToolCall


def _draft(*calls: tuple[int, str, str, str]) -> Draft:
    draft = Draft()
    for call in calls:
        draft.add_call(*call)
    return draft


@given(st.lists(st.text()), st.lists(st.lists(st.text(), min_size=1), max_size=4))
def test_text_and_arguments_are_whole_however_they_were_cut(
    texts: list[str], calls: list[list[str]]
) -> None:
    heard: list[str] = []
    draft = Draft(heard.append)
    for text in texts:
        draft.add_text(text)
    for index in range(len(calls)):
        draft.add_call(index, id=f"id{index}", name="shell")
    for index, parts in enumerate(calls):
        for part in parts:
            draft.add_call(index, arguments=part)
    assert draft.text == "".join(texts) == "".join(heard)
    assert draft.reply(Usage()).tool_calls == tuple(
        ToolCall(f"id{index}", "shell", "".join(parts))
        for index, parts in enumerate(calls)
    )


def test_a_name_that_comes_with_every_piece_is_not_repeated() -> None:
    draft = _draft((0, "a", "shell", "{"), (0, "a", "shell", "}"))
    assert draft.reply(Usage()).tool_calls == (ToolCall("a", "shell", "{}"),)


def test_a_call_without_an_id_gets_a_new_one() -> None:
    draft = _draft((0, "", "shell", "{}"))
    (first,), (second,) = (
        draft.reply(Usage()).tool_calls,
        draft.reply(Usage()).tool_calls,
    )
    assert first.id.startswith("call_")
    assert first.id != second.id


def test_a_reply_has_no_lone_surrogates() -> None:
    draft = Draft(text="a\ud800", calls={0: ToolCall("a", "shell", "\udc00")})
    reply = draft.reply(Usage())
    assert (reply.text, reply.tool_calls[0].arguments) == ("a?", "?")


def test_a_draft_has_started_once_anything_came() -> None:
    draft = Draft()
    assert not draft.started
    draft.report = Usage(input_tokens=1)
    assert draft.started

"""One turn at a time."""

from __future__ import annotations

import pytest

from goalrunner.agents.chat_model import Turns
from goalrunner.core.errors import ConversationBusy


def test_a_second_turn_is_refused_and_the_first_is_not_disturbed_by_it() -> None:
    turns = Turns()
    with turns.one():
        with pytest.raises(ConversationBusy, match="in the middle of a turn"), turns.one():
            pass
        with pytest.raises(ConversationBusy), turns.one():
            pass


def test_after_a_turn_that_failed_there_may_be_another() -> None:
    turns, turned = Turns(), []
    with pytest.raises(ValueError, match="broken"), turns.one():
        raise ValueError("broken")
    with turns.one():
        turned.append("again")
    assert turned == ["again"]

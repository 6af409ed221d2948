"""One turn at a time."""

from __future__ import annotations

import pytest

from goalrunner.agents.model_chat import TurnLock
from goalrunner.core.errors import ConversationBusy


def test_a_second_turn_is_refused_and_the_first_is_not_disturbed_by_it() -> None:
    turns = TurnLock()
    with turns.hold():
        with pytest.raises(ConversationBusy, match="has not ended"), turns.hold():
            pass
        with pytest.raises(ConversationBusy), turns.hold():
            pass


def test_after_a_turn_that_failed_there_may_be_another() -> None:
    turns, turned = TurnLock(), []
    with pytest.raises(ValueError, match="broken"), turns.hold():
        raise ValueError("broken")
    with turns.hold():
        turned.append("again")
    assert turned == ["again"]

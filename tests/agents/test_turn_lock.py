"""One turn at a time."""

from __future__ import annotations

from threading import Lock

import pytest

from goalrunner.agents.model_chat import only_turn
from goalrunner.core.errors import ConversationBusy


def test_a_second_turn_is_refused_and_the_first_is_not_disturbed_by_it() -> None:
    turns = Lock()
    with only_turn(turns):
        with pytest.raises(ConversationBusy, match="has not ended"), only_turn(turns):
            pass
        with pytest.raises(ConversationBusy), only_turn(turns):
            pass


def test_after_a_turn_that_failed_there_may_be_another() -> None:
    turns, turned = Lock(), []
    with pytest.raises(ValueError, match="broken"), only_turn(turns):
        raise ValueError("broken")
    with only_turn(turns):
        turned.append("again")
    assert turned == ["again"]

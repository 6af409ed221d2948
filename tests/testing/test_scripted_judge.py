"""The scripted judge plays verdicts and second opinions, and fails loudly when its script is exhausted."""

from __future__ import annotations

from typing import cast

import pytest

from goalrunner.core.agent_ports import Recorder
from goalrunner.core.errors import ProviderUnavailable
from goalrunner.core.events import ConfirmationRecorded, VerdictRecorded
from goalrunner.core.ports import AuditRequest, Judge
from goalrunner.testing import ScriptedJudge, ScriptExhausted, satisfied, unsatisfied
from tests.support.judge_model import AuditNotes
from tests.support.trails import trail

REQUEST = AuditRequest("Do it.", (), (), "workspace", 1, trail())


async def test_verdicts_are_played_in_order() -> None:
    stale = VerdictRecorded(
        round=1, verdict=unsatisfied("run it again"), stale_only=True
    )
    judge: Judge = ScriptedJudge(satisfied(), stale)
    recorder = cast(Recorder, AuditNotes())
    assert await judge.audit(REQUEST, recorder) == VerdictRecorded(
        round=1, verdict=satisfied(), citations_checked=1
    )
    assert await judge.audit(REQUEST, recorder) == stale
    with pytest.raises(ScriptExhausted):
        await judge.audit(REQUEST, recorder)


async def test_second_opinions_are_played_in_order() -> None:
    denied = ConfirmationRecorded(
        claim="no site", confirmed=False, reason="hardly tried"
    )
    judge = ScriptedJudge(opinions=[True, denied, ProviderUnavailable("503")])
    notes = AuditNotes()
    recorder = cast(Recorder, notes)
    assert (await judge.confirm(REQUEST, "no key", recorder)).confirmed
    assert await judge.confirm(REQUEST, "no site", recorder) == denied
    with pytest.raises(ProviderUnavailable):
        await judge.confirm(REQUEST, "no net", recorder)
    with pytest.raises(ScriptExhausted):
        await judge.confirm(REQUEST, "nothing", recorder)
    assert judge.claims == ["no key", "no site", "no net"]
    assert (notes.checks, len(notes.usages)) == (3, 2)

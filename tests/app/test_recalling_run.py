"""A later run of the same owner: what its agent reads, and its judge does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from goalrunner.app.promotion import Promotion, promote_fact
from goalrunner.core import events
from goalrunner.core.errors import ModelError
from goalrunner.records.redaction import Redactor
from tests.support.arena import Arena, Ending
from tests.support.judge_model import ScriptedJudgeModel
from tests.support.kept_run import kept_run
from tests.support.memory import ManualClock
from tests.support.recordings import shell

FACT = "the greeting is kept in hello.txt"
CRITERION = "hello.txt exists"


async def later_run(folder: Path, judge_llm: Any = None, **goal: Any) -> Ending:
    arena = Arena(folder)
    earlier = kept_run(arena.home, owner="ann")
    promote_fact(
        earlier,
        arena.home,
        Promotion(item="o1", kind="fact", by="ann@desk", text=FACT),
        ManualClock(),
        Redactor({}),
    )
    keys = {"validators": [{"name": "made", "run": "test -e hello.txt"}], **goal}
    return await arena.fight((shell("touch hello.txt"),), judge_llm=judge_llm, **keys)


def first_prompt(ending: Ending) -> str:
    messages = [json.loads(line) for line in ending.told().splitlines()]
    return str(
        next(message["content"] for message in messages if message["role"] == "user")
    )


def notes(ending: Ending) -> tuple[str, ...]:
    return next(
        record.event.notes
        for record in ending.records
        if isinstance(record.event, events.RunStarted)
    )


async def test_it_is_told_marked_as_remembered_and_no_evidence(tmp_path: Path) -> None:
    ending = await later_run(tmp_path, owner="ann", memory={"recall": True})
    assert ending.outcome.passed
    prompt = first_prompt(ending)
    marked = "Remembered from earlier runs. None of it is evidence"
    assert prompt.index(marked) < prompt.index(f"o1 of run k3f9-make-parse) {FACT}")
    assert any("the agent reads 1 remembered" in note for note in notes(ending))


async def test_without_recall_nothing_is_told(tmp_path: Path) -> None:
    assert FACT not in (await later_run(tmp_path, owner="ann")).told()


async def test_another_owner_is_told_nothing(tmp_path: Path) -> None:
    assert (
        FACT
        not in (await later_run(tmp_path, owner="bob", memory={"recall": True})).told()
    )


async def test_the_judge_is_not_given_it(tmp_path: Path) -> None:
    judge = ScriptedJudgeModel((ModelError("no judge today"),))
    ending = await later_run(
        tmp_path,
        judge,
        owner="ann",
        memory={"recall": True},
        success_criteria=[CRITERION],
        judge={"model": "x/y"},
    )
    assert FACT in first_prompt(ending)
    shown = json.dumps([asked.messages for asked in judge.asked])
    assert CRITERION in shown
    assert FACT not in shown

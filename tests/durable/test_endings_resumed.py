"""Runs that ended because nothing more could be done, and go on after all; and those that only their program can drive."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from goalrunner import arun_goal, chat_conversation
from goalrunner.core.verdict import ValidationOutcome
from goalrunner.engine.resumption import Resumption
from goalrunner.records.artifacts import ArtifactStore
from goalrunner.records.event_log import read_records
from goalrunner.records.redaction import Redactor
from goalrunner.records.transcript_file import read_message
from tests.support.durable_goal import Goal
from tests.support.recordings import agent, judge, quote, recording, shell

JUDGED = 'objective = "greet"\nsuccess_criteria = ["it greets"]\nmodel = "MODEL"\njudge = "MODEL"\nmax_iterations = 6\n'


def blocked(why: str) -> dict[str, Any]:
    """A verdict that nothing can be done."""
    reply = judge(("it greets", []), missing="a way to greet")
    return {**reply, "text": json.dumps({**json.loads(reply["text"]), "blocked": why})}


def opinion(confirmed: bool) -> dict[str, Any]:
    """What a second look at that claim says."""
    return {
        "account": "judge",
        "text": json.dumps({"confirmed": confirmed, "reason": "there is no voice"}),
    }


GREETED = (agent("", shell("echo hello > hi; cat hi"), shell("cat hi")), agent("done"))


def test_an_impossible_goal_goes_on_when_its_owner_has_mended_it(goal: Goal) -> None:
    """The claim that was confirmed is not believed a second time unasked: it was made of other circumstances."""
    stuck = [agent("", shell("ls")), agent("I cannot"), blocked("no voice")]
    goal.write(
        JUDGED,
        *stuck,
        *stuck,
        opinion(True),
        *GREETED,
        judge(("it greets", [quote("o4", "hello")])),
    )
    ended = goal.run()
    assert (ended.code, goal.outcome()["stop_reason"]) == (3, "impossible"), ended
    done = goal.resume("--note", "the voice is there now")
    assert (done.code, goal.outcome()["stop_reason"]) == (0, "satisfied"), done
    told = [
        str(message["content"]) for message in goal.chat() if message["role"] == "user"
    ]
    assert "the voice is there now" in told[-1]


def test_an_impossible_goal_may_be_found_impossible_again_with_a_second_opinion_on_another_claim(
    goal: Goal,
) -> None:
    stuck = [agent("", shell("ls")), agent("I cannot"), blocked("no voice")]
    again = [agent("", shell("ls")), agent("I cannot"), blocked("no ears either")]
    goal.write(JUDGED, *stuck, *stuck, opinion(True), *again, opinion(True))
    assert goal.run().code == 3
    ended = goal.resume()
    assert (ended.code, goal.outcome()["stop_reason"]) == (3, "impossible"), ended
    assert (
        len(
            [
                1
                for record in goal.records()
                if record.event.type == "confirmation_recorded"
            ]
        )
        == 2
    )


def test_a_run_whose_evidence_was_stale_goes_on(goal: Goal) -> None:
    def stale(observation: str) -> list[dict[str, Any]]:
        work = agent("", shell("printf 'hel%s' lo"), shell("date +%N > hi"))
        return [
            work,
            agent("done"),
            judge(("it greets", [quote(observation, "hello")])),
        ]

    goal.write(
        JUDGED,
        *stale("o1"),
        *stale("o3"),
        *GREETED,
        judge(("it greets", [quote("o6", "hello")])),
    )
    ended = goal.run("--max-iterations", "2")
    assert (ended.code, goal.outcome()["stop_reason"]) == (1, "max_iterations"), ended
    done = goal.resume("--max-iterations", "3")
    assert (done.code, goal.outcome()["stop_reason"]) == (0, "satisfied"), done


async def test_a_run_with_callables_of_a_program_is_refused_by_their_name(
    goal: Goal, tmp_path: Path
) -> None:
    def never(response: str) -> ValidationOutcome:
        return ValidationOutcome(passed=False, feedback="no")

    model = recording(tmp_path / "library.jsonl", agent("one"), agent("two"))
    chat = chat_conversation(model, workspace=goal.work)
    outcome = await arun_goal(
        chat, "say it", validators=never, max_iterations=1, home=goal.home
    )
    assert outcome.stop_reason == "max_iterations"
    before = len(goal.records())
    refused = goal.resume(outcome.run_id, "--max-iterations", "3")
    assert refused.code == 2, refused
    assert "passed its conversation, validators" in refused.err
    assert "resume it there: goalrunner.resume(run, conversation)" in " ".join(
        refused.err.split()
    )
    assert len(goal.records()) == before


PLAIN = 'objective = "make done"\nmodel = "MODEL"\nvalidator = "test -e done"\n'


@pytest.fixture
def talked(goal: Goal) -> Goal:
    """A run that is over, and a goal that continues its conversation."""
    goal.write(
        PLAIN, agent("", shell("echo the password is swordfish")), agent("I know it")
    )
    goal.run("--max-iterations", "1")
    goal.write(
        PLAIN.replace("make done", "now make done"),
        agent("", shell("touch done")),
        agent("yes"),
    )
    return goal


def test_a_run_killed_while_a_conversation_is_copied_has_not_begun(
    talked: Goal,
) -> None:
    first, said = talked.folder.name, talked.chat()
    assert talked.run("--continue-from", first).code == 0
    begins = talked.number_of("run_started")
    assert begins > 2
    for place in range(1, begins):
        (talked.work / "done").unlink(missing_ok=True)
        assert talked.run("--continue-from", first, kill=("after", place)).code == -9
        refused = talked.resume()
        assert refused.code == 2, (place, refused)
        assert "was ended before it began" in refused.err
        named = talked.resume(talked.folder.name)
        assert named.code == 4, (place, named)
        assert "ends before the run began" in named.err
        assert "start a new run: goal run GOAL_FILE" in named.err
        assert talked.command("cancel", "--yes").code == 0  # it can be read and ended
    (talked.work / "done").unlink(missing_ok=True)
    assert talked.run("--continue-from", first, kill=("after", begins)).code == -9
    assert talked.resume().code == 0
    chat = talked.chat()
    assert chat[: len(said)] == said
    assert str(chat[len(said)]["content"]).startswith("now make done")
    assert talked.command("verify").code == 0


def test_a_run_that_has_a_folder_and_no_log_says_what_to_type(goal: Goal) -> None:
    goal.write(PLAIN, agent("", shell("touch done")), agent("made it"))
    goal.run()
    (goal.folder / "events.jsonl").unlink()
    refused = goal.resume()
    assert refused.code == 4, refused
    assert (
        "events.jsonl does not exist: the run never began, or its log was deleted"
        in refused.err
    )
    assert "start a new run: goal run GOAL_FILE" in refused.err


def test_the_objective_of_a_resumed_run_is_its_own_and_not_that_of_the_conversation_it_continues(
    talked: Goal,
) -> None:
    """It is the message that no shortening touches."""
    talked.run("--continue-from", talked.folder.name)
    reader = Resumption(fresh_rounds=False)
    folder = talked.folder
    for record in read_records(folder / "events.jsonl"):
        reader.add(record)
    left = reader.read(
        lambda ref: read_message(folder / "transcript.jsonl", ref),
        ArtifactStore(folder / "artifacts", Redactor({})),
    )
    place = left.unfinished.objective
    assert place is not None
    said = [message for message in left.chat if message["role"] != "system"]
    assert str(said[0]["content"]).startswith("make done")
    assert str(said[place]["content"]).startswith("now make done")

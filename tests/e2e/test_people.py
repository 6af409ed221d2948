"""Approvals and questions as people meet them: at a real terminal, from another one, and around a kill -9."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from goalrunner.core.events import Record
from goalrunner.records.decision_files import DecisionFiles, GivenApproval, GivenNote
from goalrunner.records.event_log import read_records
from tests.e2e.test_from_another_terminal import await_file
from tests.support.command_line import only_run, outcome_of, start
from tests.support.forking import goal
from tests.support.recordings import agent, judge, quote, recording, shell, write_file
from tests.support.terminal import Terminal

"""A program for each thing that a person does: beside the default tests, with the runs that are killed."""

ONCE = "echo once >> done"


def goal_file(place: Path, model: str, approvals: str, extra: str = "") -> Path:
    """A goal whose validator wants the file `done`."""
    path = place.parent / "goal.toml"
    path.write_text(
        f'objective = "make done"\nmodel = "{model}"\nvalidator = "test -e done"\n{extra}\n'
        f'[workspace]\npath = "{place}"\n[approvals]\n{approvals}\n'
    )
    return path


def one_call(place: Path, *more: dict[str, Any]) -> str:
    """An agent that runs one command and says that it did."""
    return recording(
        place.parent / "r.jsonl", agent("", shell(ONCE)), *(more or (agent("made it"),))
    )


def records(home: Path) -> list[Record]:
    return list(read_records(only_run(home) / "events.jsonl"))


def types(home: Path) -> list[str]:
    return [record.event.type for record in records(home)]


def test_without_a_person_the_run_is_blocked_and_an_approved_command_runs_once(
    place: Path, own_home: Path
) -> None:
    ended = goal(
        "run", goal_file(place, one_call(place), 'require = ["shell"]'), cwd=place
    )
    run = only_run(own_home).name
    outcome = outcome_of(own_home)
    assert (ended.code, outcome["stop_reason"]) == (3, "approval_required"), ended
    assert not (place / "done").exists()
    assert f"goal approve {run}" in ended.out
    assert outcome["approvals"][0] | {"requested_at": "", "expires_at": ""} == {
        "id": "a1",
        "kind": "shell",
        "action": ONCE,
        "rule": '[approvals] require = ["shell"]',
        "requested_at": "",
        "expires_at": "",
        "decision": "waiting",
        "decided_at": "",
        "by": "",
        "reason": "",
        "guarded": True,
        "evidence_refs": outcome["approvals"][0]["evidence_refs"],
        "diff": "",
    }
    status = goal("status", run, cwd=place)
    assert (status.code, "waits" in status.out, ONCE in status.out) == (
        3,
        True,
        True,
    ), status
    assert f"goal status {run}" in goal("list", cwd=place).out

    again = goal("resume", run, cwd=place)
    assert (again.code, [item["id"] for item in outcome_of(own_home)["approvals"]]) == (
        3,
        ["a1"],
    ), again
    assert types(own_home).count("approval_requested") == 1

    approved = goal("approve", run, cwd=place)
    assert (approved.code, f"goal resume {run}" in approved.out) == (0, True), approved
    outcome = outcome_of(own_home)
    assert (outcome["status"], outcome["approvals"][0]["decision"]) == (
        "blocked",
        "approved",
    )
    assert outcome["approvals"][0]["by"].partition("@")[2]
    assert (
        json.loads((only_run(own_home) / "summary.json").read_text())["approvals"] == []
    )
    assert "waits" not in goal("status", run, cwd=place).out
    assert goal("verify", run, cwd=place).code == 0
    twice = goal("approve", run, cwd=place)
    assert (twice.code, "already decided: approved by" in twice.err) == (2, True), twice

    done = goal("resume", run, cwd=place)
    assert (done.code, (place / "done").read_text()) == (0, "once\n"), done
    assert "unguarded approval" in outcome_of(own_home)["labels"]
    over = goal("approve", run, cwd=place)
    assert (over.code, "is already complete" in over.err) == (2, True), over
    assert goal("answer", run, "x", cwd=place).code == 2


def test_an_expired_approval_can_no_longer_be_given(
    place: Path, own_home: Path
) -> None:
    path = goal_file(place, one_call(place), 'require = ["shell"]\nexpires = "1s"')
    assert goal("run", path, cwd=place).code == 3
    run = only_run(own_home).name
    time.sleep(1.1)
    late = goal("approve", run, cwd=place)
    assert (late.code, "expired" in late.err) == (2, True), late
    assert outcome_of(own_home)["approvals"][0]["decision"] == "expired"
    ended = goal("resume", run, cwd=place)
    assert (ended.code, outcome_of(own_home)["stop_reason"]) == (3, "denied"), ended
    assert not (place / "done").exists()


def test_an_approved_completion_completes_and_one_of_other_files_is_asked_again(
    place: Path, own_home: Path
) -> None:
    path = goal_file(place, one_call(place), 'require = ["complete"]')
    assert goal("run", path, cwd=place).code == 3
    run = only_run(own_home).name
    assert goal("approve", run, cwd=place).code == 0
    (place / "done").write_text("something else\n")
    changed = goal("resume", run, cwd=place)
    assert changed.code == 3, changed
    assert [item["decision"] for item in outcome_of(own_home)["approvals"]] == [
        "approved",
        "waiting",
    ]
    assert goal("approve", run, "a2", cwd=place).code == 0
    assert goal("resume", run, cwd=place).code == 0


def test_wrong_words_are_refused(place: Path, own_home: Path) -> None:
    assert goal("approve", cwd=place).code == 2
    assert goal("approve", "k3f9", cwd=place).code == 2
    assert (
        goal(
            "run", goal_file(place, one_call(place), 'require = ["shell"]'), cwd=place
        ).code
        == 3
    )
    run = only_run(own_home).name
    for arguments, said in (
        (("approve", run, "a9"), "has no approval a9\nit waits for a1"),
        (("answer", run, "blue"), "has no open question"),
        (("answer", run, " "), "the answer is empty"),
    ):
        ended = goal(*arguments, cwd=place)
        assert (ended.code, said in ended.err) == (2, True), ended
    assert types(own_home).count("approval_recorded") == 0


def cut_after(home: Path, event: str) -> None:
    """Make the run what a kill -9 after that event would have left."""
    run = only_run(home)
    lines = (run / "events.jsonl").read_bytes().splitlines(keepends=True)
    place = next(at for at, line in enumerate(lines) if f'"{event}"'.encode() in line)
    (run / "events.jsonl").write_bytes(b"".join(lines[: place + 1]))
    (run / "outcome.json").unlink()


def test_killed_between_approval_and_call_it_runs_once(
    place: Path, own_home: Path
) -> None:
    path = goal_file(place, one_call(place), 'require = ["shell"]')
    assert goal("run", path, cwd=place).code == 3
    run = only_run(own_home).name
    assert goal("approve", run, cwd=place).code == 0
    assert goal("resume", run, cwd=place).code == 0
    (place / "done").unlink()
    cut_after(own_home, "approval_recorded")
    ended = goal("resume", run, cwd=place)
    assert (ended.code, (place / "done").read_text()) == (0, "once\n"), ended


def test_killed_after_the_call_began_it_is_never_run_again(
    place: Path, own_home: Path
) -> None:
    model = one_call(place, agent("I do not know"))
    path = goal_file(place, model, 'require = ["shell"]', "max_iterations = 1")
    assert goal("run", path, cwd=place).code == 3
    run = only_run(own_home).name
    assert goal("approve", run, cwd=place).code == 0
    assert goal("resume", run, cwd=place).code == 0
    (place / "done").unlink()
    cut_after(own_home, "tool_called")
    ended = goal("resume", run, cwd=place)
    assert (ended.code, (place / "done").exists()) == (1, False), ended
    assert types(own_home).count("approval_requested") == 1


def test_at_a_terminal_the_command_is_in_view_and_a_yes_runs_it(
    place: Path, own_home: Path
) -> None:
    with Terminal(
        "run", goal_file(place, one_call(place), 'require = ["shell"]'), cwd=place
    ) as terminal:
        terminal.wait_for("[y]es / [n]o")
        assert f"│ {ONCE}" in terminal.shown
        assert not (place / "done").exists()
        terminal.type("perhaps\n")
        terminal.wait_for("[y]es / [n]o", times=2)
        terminal.type("y\n")
        assert terminal.end() == 0, terminal.shown
    assert (place / "done").read_text() == "once\n"
    outcome = outcome_of(own_home)
    # Without a sandbox, a command of the agent could have typed it.
    assert not outcome["approvals"][0]["guarded"]
    assert "unguarded approval" in outcome["labels"]


def test_at_a_terminal_a_diff_and_a_completion_are_in_view_and_the_time_does_not_count(
    place: Path, own_home: Path
) -> None:
    model = recording(
        place.parent / "r.jsonl",
        agent("", write_file("done", "a new line\n")),
        agent("made it"),
    )
    path = goal_file(place, model, 'require = ["write", "complete"]', 'timeout = "6s"')
    with Terminal("run", path, cwd=place) as terminal:
        terminal.wait_for("[y]es / [n]o")
        assert "│ +a new line" in terminal.shown
        time.sleep(7)
        terminal.type("y\n")
        terminal.wait_for("[y]es / [n]o", times=2)
        assert "changed since the start: done" in terminal.shown
        assert "test -e done" in terminal.shown.rpartition("evidence:")[2]
        terminal.type("n not yet\n")
        assert terminal.end() == 3, terminal.shown
    outcome = outcome_of(own_home)
    assert (outcome["stop_reason"], outcome["approvals"][1]["reason"]) == (
        "denied",
        "not yet",
    )
    assert outcome["duration"] < 6


def test_ctrl_c_at_the_question_leaves_it_pending(place: Path, own_home: Path) -> None:
    with Terminal(
        "run", goal_file(place, one_call(place), 'require = ["shell"]'), cwd=place
    ) as terminal:
        terminal.wait_for("[y]es / [n]o")
        terminal.type("\x03")
        assert terminal.end() == 130, terminal.shown
    outcome = outcome_of(own_home)
    assert (outcome["stop_reason"], outcome["approvals"][0]["decision"]) == (
        "interrupted",
        "waiting",
    )
    run = only_run(own_home).name
    assert f"goal approve {run} a1" in goal("status", run, cwd=place).out
    with Terminal("resume", run, cwd=place) as terminal:
        terminal.wait_for("[y]es / [n]o")
        terminal.type("y\n")
        assert terminal.end() == 0, terminal.shown
    assert (place / "done").read_text() == "once\n"
    assert types(own_home).count("approval_requested") == 1


def test_ctrl_d_leaves_the_question_open(place: Path, own_home: Path) -> None:
    with Terminal(
        "run",
        goal_file(place, one_call(place), 'require = ["shell"]'),
        "--json",
        cwd=place,
    ) as terminal:
        terminal.wait_for("[y]es / [n]o")
        terminal.type("\x04")
        assert terminal.end() == 3, terminal.shown
    assert outcome_of(own_home)["stop_reason"] == "approval_required"


def test_another_terminal_approves_while_the_first_one_asks(
    place: Path, own_home: Path
) -> None:
    path = goal_file(place, one_call(place), 'require = ["shell", "complete"]')
    with Terminal("run", path, cwd=place) as terminal:
        terminal.wait_for("[y]es / [n]o")
        run = only_run(own_home).name
        status = goal("status", run, cwd=place)
        assert "status     waiting for you" in status.out, status
        assert f"accept     goal approve {run} a1" in status.out, status
        approved = goal("approve", "--yes", cwd=place)
        assert (
            approved.code,
            f"the run goes on: goal watch {run}" in approved.out,
        ) == (0, True), approved
        terminal.wait_for("approved by ")
        terminal.wait_for("[y]es / [n]o", times=2)
        terminal.type("y\n")  # the first question no longer reads what is typed
        assert terminal.end() == 0, terminal.shown
    assert (place / "done").read_text() == "once\n"
    assert [item["decision"] for item in outcome_of(own_home)["approvals"]] == [
        "approved",
        "approved",
    ]
    assert types(own_home).count("approval_recorded") == 2
    assert list((only_run(own_home) / "decisions").iterdir()) == []
    assert goal("verify", run, cwd=place).code == 0


def test_killed_while_it_asks_another_terminal_may_approve(
    place: Path, own_home: Path
) -> None:
    with Terminal(
        "run", goal_file(place, one_call(place), 'require = ["shell"]'), cwd=place
    ) as terminal:
        terminal.wait_for("[y]es / [n]o")
        run = only_run(own_home).name
        terminal.kill()
    approved = goal("approve", run, cwd=place)
    assert approved.code == 0, approved
    assert goal("status", run, "--json", cwd=place).code == 4
    ended = goal("resume", run, cwd=place)
    assert (ended.code, (place / "done").read_text()) == (0, "once\n"), ended


def test_a_decision_of_a_killed_command_is_taken_over_by_the_resumed_run(
    place: Path, own_home: Path
) -> None:
    with Terminal(
        "run", goal_file(place, one_call(place), 'require = ["shell"]'), cwd=place
    ) as terminal:
        terminal.wait_for("[y]es / [n]o")
        terminal.kill()
    given = DecisionFiles(only_run(own_home) / "decisions")
    given.give(GivenApproval(approval_id="a1", decision="approved", by="ann@desk"))
    given.give(GivenNote(note_id="n1", text="keep the public API", by="ann@desk"))
    ended = goal("resume", cwd=place)
    assert (ended.code, (place / "done").read_text()) == (0, "once\n"), ended
    assert outcome_of(own_home)["approvals"][0]["by"] == "ann@desk"
    assert types(own_home).count("note_given") == 1
    assert list((only_run(own_home) / "decisions").iterdir()) == []


def test_another_terminal_answers_while_the_first_one_asks(
    place: Path, own_home: Path
) -> None:
    ask = {"name": "ask", "arguments": {"question": "Which colour?"}}
    model = recording(
        place.parent / "r.jsonl",
        agent("", ask),
        agent("", shell(ONCE)),
        agent("made it"),
    )
    with Terminal("run", goal_file(place, model, ""), cwd=place) as terminal:
        terminal.wait_for("Your answer")
        assert "status     waiting for you" in goal("status", cwd=place).out
        answered = goal("answer", "dark blue", cwd=place)
        assert answered.code == 0, answered
        assert terminal.end() == 0, terminal.shown
    chat = (only_run(own_home) / "transcript.jsonl").read_text()
    assert "dark blue" in chat
    assert types(own_home).count("question_answered") == 1


def test_a_note_is_given_with_the_next_prompt(place: Path, own_home: Path) -> None:
    slow = agent("", shell("touch began; while [ ! -e noted ]; do sleep 0.1; done"))
    model = recording(
        place.parent / "r.jsonl",
        slow,
        agent("is it enough?"),
        agent("", shell(ONCE)),
        agent("made it"),
    )
    running = start("run", goal_file(place, model, ""), cwd=place)
    await_file(place / "began")
    run = only_run(own_home).name
    noted = goal("note", run, "keep the public API", cwd=place)
    assert (
        noted.code,
        "the agent gets the note with its next prompt" in noted.out,
    ) == (0, True), noted
    (place / "noted").touch()
    running.communicate(timeout=20)
    assert running.returncode == 0
    assert (
        "The owner says:\\nkeep the public API"
        in (only_run(own_home) / "transcript.jsonl").read_text()
    )
    assert goal("verify", run, cwd=place).code == 0
    late = goal("note", run, "more", cwd=place)
    assert (late.code, "is already complete" in late.err) == (2, True), late


def test_a_question_blocks_and_its_answer_can_be_cited(
    place: Path, own_home: Path
) -> None:
    ask = {"name": "ask", "arguments": {"question": "Which colour?"}}
    criterion = "the owner's colour is used"
    model = recording(
        place.parent / "r.jsonl",
        agent("", ask, shell(ONCE)),
        agent("I wait"),
        judge((criterion, []), missing="the colour is not known"),
        agent("it is blue"),
        judge((criterion, [quote("o5", "dark blue, please")])),
    )
    path = goal_file(
        place, model, "", f'judge = "{model}"\nsuccess_criteria = ["{criterion}"]'
    )
    ended = goal("run", path, cwd=place)
    run = only_run(own_home).name
    assert (ended.code, outcome_of(own_home)["stop_reason"]) == (3, "question_open"), (
        ended
    )
    assert outcome_of(own_home)["questions"] == ["Which colour?"]
    assert f'goal answer {run} "..."' in ended.out
    assert f"{run} waits for you: goal status {run}" in goal("list", cwd=place).out
    wrong = goal("answer", run, "x", "--question", "2", cwd=place)
    assert (wrong.code, "1  Which colour?" in wrong.err) == (2, True), wrong
    answered = goal("answer", run, "dark blue, please", "--json", cwd=place)
    evidence = json.loads(answered.out)["evidence_ref"]
    assert (answered.code, evidence) == (0, "o5"), answered
    assert goal("verify", run, cwd=place).code == 0
    done = goal("resume", run, cwd=place)
    assert done.code == 0, done
    assert "Answer: dark blue, please" in (
        only_run(own_home) / "transcript.jsonl"
    ).read_text().replace("\\n", "\n")
    assert goal("verify", run, cwd=place).code == 0

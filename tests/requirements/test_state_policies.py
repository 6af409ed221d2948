"""What the text on goals and state says of memory, failure modes, measures and the production checklist, for this project."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from goalrunner import (
    Goal,
    Recorder,
    RunState,
    ToolResult,
    ValidationOutcome,
    json_schema,
    read_events,
    read_state,
    resume,
    run_goal,
)
from goalrunner.testing import ScriptedConversation
from tests.support.library_runs import Judge, Project, chatting, fails, feedback, proves, ran, returns, says
from tests.support.recordings import agent, judge, quote, shell

DONE = 'validator = "test -e done"\n'
MADE = (agent("", shell("touch done; ls")), agent("done"))


def test_s26_nothing_is_kept_for_later_runs_without_a_policy(project: Project) -> None:
    project.write(f'{DONE}owner = "ann"', *MADE)
    project.run()
    refused = project.goal("promote", project.run_id, "o2", "--kind", "fact")
    assert (refused.code, "[memory] promote" in refused.err) == (2, True)
    assert not (project.home / "memory").exists()


def test_s27_the_policy_decides_kind_source_permission_expiry_correction_and_deletion(project: Project) -> None:
    project.write(f'{DONE}owner = "ann"\n[memory]\npromote = ["fact"]', *MADE)
    project.run()

    def promote(item: str = "o2", kind: str = "fact", *options: str) -> int:
        return project.goal("promote", project.run_id, item, "--kind", kind, "--text", "ls shows done", *options).code

    assert promote(kind="preference") == 2
    assert promote("o99") == 2
    assert promote("o2", "fact", "--sensitivity", "medium") == 2
    assert promote("o2", "fact", "--sensitivity", "high", "--permission", "ann") == 2
    assert promote("o2", "fact", "--sensitivity", "high", "--permission", "ann", "--expires", "9d") == 0

    def kept() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(project.goal("memory", "--json").out)
        return found

    (item,) = kept()
    assert (item["kind"], item["owner"], item["source_ref"], item["permission"]) == ("fact", "ann", "o2", "ann")
    assert item["expires_at"] > item["promoted_at"]
    assert promote("o2", "fact", "--replaces", item["memory_id"]) == 0
    (corrected,) = kept()
    assert corrected["memory_id"] != item["memory_id"]
    assert project.goal("forget", corrected["memory_id"]).code == 0
    assert kept() == []


def test_s31_secrets_are_redacted_and_runs_are_pruned(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "hunter2-hunter2-hunter2"
    monkeypatch.setenv("DB_PASSWORD", secret)
    conversation = chatting(
        project.folder, agent("", shell(f"touch done; echo pass {secret}")), agent(f"It is {secret}.")
    )
    outcome = run_goal(conversation, "Make done.", validators="test -e done")
    assert outcome.passed
    assert outcome.redacted["DB_PASSWORD"] >= 2
    folder = Path(outcome.run_path)
    texts = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    assert not [text for text in texts if secret.encode() in text]
    assert any(b"[redacted:DB_PASSWORD]" in text for text in texts)
    assert project.goal("prune", "--older-than", "1d", "--yes").code == 0
    assert folder.exists()
    assert project.goal("prune", "--older-than", "0m", "--yes").code == 0
    assert not folder.exists()


def test_s32_a_run_explains_what_it_does_on_which_evidence_and_why_it_ended(project: Project) -> None:
    project.write(DONE, agent("a"), *MADE)
    project.run()
    shown = " ".join(project.goal("show", project.run_id, "--state").out.split())
    for words in ("Do the work.", "complete (satisfied): validators of round 2", "round-2", "o3"):
        assert words in shown
    assert "exit 1" in project.goal("show", project.run_id).out


def test_s33_each_write_transition_retry_resume_and_stop_is_an_event_and_reading_writes_nothing(
    project: Project,
) -> None:
    project.write(f"{DONE}max_iterations = 1", agent("a"), *MADE)
    project.run(code=1)
    project.resume("--max-iterations", "2")
    seen: list[str] = [event.type for event in read_events(project.run_id)]
    for kind, times in {"round_started": 2, "run_resumed": 1, "run_ended": 2, "validators_finished": 2}.items():
        assert seen.count(kind) == times, kind
    log = project.home / "runs" / project.run_id / "events.jsonl"
    before = log.read_bytes()
    for command in ("status", "show", "verify"):
        project.goal(command, project.run_id)
    assert read_state(project.run_id).memory.version == len(seen)
    assert log.read_bytes() == before


def test_s34_a_round_has_a_bounded_number_of_steps(project: Project) -> None:
    calls = [agent("", shell(f"echo {number}")) for number in range(5)]
    project.write(f"{DONE}max_iterations = 1\n[agent]\nmax_steps = 3\nmodel = 'MODEL'", *calls)
    text = (project.folder / "goal.toml").read_text()
    (project.folder / "goal.toml").write_text(text.replace('\nmodel = "', "\n# ", 1))
    project.run(code=1)
    assert [(event.reason, event.steps) for event in project.events("round_finished")] == [("max_steps", 3)]
    assert len(project.events("tool_result_recorded")) == 3


def test_s35_each_retry_has_the_objective_word_for_word_and_a_broken_constraint_is_not_complete() -> None:
    objective = "Make a.txt, and nothing else: {not} a template."
    conversation = ScriptedConversation("a", "b", "c")
    run_goal(conversation, objective, validators=returns(fails("F"), False, True))
    assert all(objective in prompt for prompt in conversation.prompts)
    goal = Goal(objective="Make a.", success_criteria=["a is made"], constraints=["b stays"])
    broken = judge(("a is made", [quote("o1", "a is here")]), ("b stays", []), missing="b is gone")["text"]
    outcome = run_goal(ScriptedConversation(ran("a is here")), goal, Judge(broken), max_iterations=1)
    assert (outcome.status, outcome.attempts[0].feedback) == ("capped", "b is gone")


def test_s36_a_sub_goal_is_a_run_of_its_own_and_keeps_the_constraints_of_its_parent(project: Project) -> None:
    goal = Goal(objective="All is done.", constraints=["one file"])
    parent = run_goal(ScriptedConversation("good"), goal, validators=says("good"))
    part = Goal(objective="A part is done.", parent=parent.run_id, constraints=["short"])
    outcome = run_goal(ScriptedConversation("good"), part, validators=says("good"))
    record = read_state(outcome).goal
    assert (record.parent, record.constraints, outcome.parent) == (parent.run_id, ("one file", "short"), parent.run_id)
    assert outcome.run_id in project.goal("show", parent.run_id).out


def blocked(why: str) -> dict[str, Any]:
    """Return a verdict that says that nothing can be done."""
    reply = judge(("it holds", []), missing="a voice")
    return {**reply, "text": json.dumps({**json.loads(reply["text"]), "blocked": why})}


@pytest.mark.parametrize(("confirmed", "code", "reason"), [(True, 3, "impossible"), (False, 1, "max_iterations")])
def test_s37_a_blocked_run_needs_a_second_opinion_and_then_a_person(
    project: Project, confirmed: bool, code: int, reason: str
) -> None:
    stuck = [agent("", shell("ls")), agent("I cannot."), blocked("there is no voice")]
    opinion = {"account": "judge", "text": json.dumps({"confirmed": confirmed, "reason": "there is none"})}
    project.write('judge = "MODEL"\nmax_iterations = 2', *stuck, *stuck, opinion)
    assert project.run(code=code)["stop_reason"] == reason
    (event,) = project.events("confirmation_recorded")
    assert event.confirmed is confirmed


def test_s38_the_replies_of_a_run_are_recorded_and_play_it_again(project: Project) -> None:
    project.write(DONE, agent("a"), *MADE)
    first = project.run("--record", "tape.jsonl")
    (project.work / "done").unlink()
    second = project.run("--model", "scripted/tape.jsonl")
    assert first["run_id"] != second["run_id"]
    assert (
        [one["passed"] for one in first["attempts"]] == [one["passed"] for one in second["attempts"]] == [False, True]
    )
    assert [event.type for event in read_events(first["run_id"])] == [
        event.type for event in read_events(second["run_id"])
    ]


def test_s39_the_records_of_a_resumed_run_are_intact_and_a_missing_event_is_found(project: Project) -> None:
    """The eight measures themselves are computed in `tests/trajectory`, over whole runs."""
    project.write(f"{DONE}max_iterations = 1", agent("a"), *MADE)
    project.run(code=1)
    project.resume("--max-iterations", "2")
    verified = json.loads(project.goal("verify", "--json").out)
    assert (verified["verified"], verified["events"] > 0) == (True, True)
    log = project.home / "runs" / project.run_id / "events.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(lines[:-3] + lines[-2:]))
    assert project.goal("verify").code == 4


def test_s40_attempts_counters_and_feedback_survive_a_resume() -> None:
    checks = returns(fails("FIRST"), fails("SECOND"), True)
    first = run_goal(ScriptedConversation("a", "b"), "x", validators=checks, max_iterations=2)
    conversation = ScriptedConversation("c")
    second = resume(first, conversation, validators=checks, max_iterations=5)
    assert (second.status, second.iterations) == ("complete", 3)
    assert feedback(second) == ["validator check: FIRST", "validator check: SECOND", None]
    assert "SECOND" in conversation.prompts[0]
    assert second.usage["agent"].calls == 3


def test_s41_the_state_is_stored_apart_from_the_chat() -> None:
    outcome = run_goal(ScriptedConversation(ran("3 passed", "a claim of the agent")), "x", validators=says("claim"))
    folder = Path(outcome.run_path)
    assert {"events.jsonl", "transcript.jsonl", "artifacts", "outcome.json"} <= {path.name for path in folder.iterdir()}
    assert "a claim of the agent" in (folder / "transcript.jsonl").read_text()
    assert "a claim of the agent" not in (folder / "events.jsonl").read_text()
    (folder / "transcript.jsonl").unlink()
    assert read_state(outcome).status == "complete"


@pytest.mark.parametrize("name", ["goal", "state", "events", "outcome"])
def test_s42_the_schemas_are_there_for_other_programs(project: Project, name: str) -> None:
    printed = json.loads(project.goal("schema", name).out)
    assert printed == json_schema(name)
    jsonschema = pytest.importorskip("jsonschema")
    outcome = run_goal(ScriptedConversation("good"), "x", validators=says("good"))
    folder = Path(outcome.run_path)
    values: dict[str, list[Any]] = {
        "goal": [{"objective": "x", "validator": "true"}],
        "state": [json.loads(read_state(outcome).model_dump_json())],
        "events": [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()],
        "outcome": [json.loads((folder / "outcome.json").read_text())],
    }
    validator = jsonschema.Draft202012Validator(printed)
    assert [error for value in values[name] for error in validator.iter_errors(value)] == []
    assert list(validator.iter_errors({"objective": 5, "seq": "one"}))


def test_s43_a_program_reads_the_state_of_a_run(project: Project) -> None:
    states: list[RunState] = []

    def check(response: Any) -> bool:
        states.append(read_state(project.run_id))
        return True

    outcome = run_goal(ScriptedConversation("good"), "x", validators=check)
    assert (states[0].status, states[0].memory.stop_reason) == ("running", None)
    for run in (outcome, outcome.run_path, outcome.run_id):
        state = read_state(run)
        assert (state.status, state.memory.stop_reason) == ("complete", "success")


class Reporting:
    """An agent that reports what another program did."""

    def __init__(self) -> None:
        self.messages: list[Any] = []

    async def send(self, prompt: str, recorder: Recorder) -> str:
        await recorder.tool_result(ToolResult("c1", "shell", "pytest", ("exit 0",), b"3 passed", reported_by="robot"))
        return "done"


def test_s44_results_of_other_agents_and_of_validators_are_typed_events() -> None:
    check = returns(ValidationOutcome(True, evidence=["order:O-104"]))
    outcome = run_goal(Reporting(), "x", validators=check)
    found: dict[str, Any] = {event.type: event for event in read_events(outcome)}
    reported = found["tool_result_recorded"].observation
    assert (reported.source, reported.reported_by, reported.facts) == ("shell", "robot", ("exit 0",))
    (seen,) = found["validators_finished"].observations
    assert (seen.source, seen.names) == ("validator check", ("order:O-104",))


def test_s45_the_final_answer_names_its_evidence() -> None:
    goal = Goal(objective="x", success_criteria=["the tests pass"])
    conversation = ScriptedConversation(ran("3 passed in 0.1s", "I tested it."))
    outcome = run_goal(conversation, goal, Judge(proves("o1", "3 passed", "the tests pass")), validators=says("tested"))
    rows = {row.kind: row for row in outcome.evidence}
    assert (rows["criterion"].observation, rows["criterion"].quote, rows["criterion"].known) == ("o1", "3 passed", True)
    assert (rows["validator"].observation, rows["validator"].satisfied) == ("o2", True)

"""What a run is when it goes on in another process: its conversation, its ruler, its evidence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from goalrunner.engine.checks import OUTSIDE
from tests.support.command_line import start
from tests.support.durable_goal import Goal
from tests.support.recordings import agent, judge, quote, shell, write_file

PLAIN = 'objective = "make done"\nmodel = "MODEL"\nvalidator = "test -e done"\n'
JUDGED = 'objective = "greet"\nsuccess_criteria = ["it greets"]\nmodel = "MODEL"\njudge = "MODEL"\n'


def test_a_round_that_begins_afresh_begins_afresh_in_another_process_too(
    goal: Goal,
) -> None:
    replies = [
        agent("", shell("echo first")),
        agent("no"),
        agent("", shell("echo second")),
        agent("no again"),
        agent("", shell("touch done")),
        agent("yes"),
    ]
    goal.write(PLAIN + "preserve_context = false", *replies)
    # In the middle of round 2, and once more between its end and round 3.
    goal.run()
    whole = goal.chat()
    goal.run_anew(("after", goal.number_of("tool_called", 2) - 1))
    assert goal.resume(kill=("after", 8)).code == -9
    assert goal.resume().code == 0
    chat = goal.chat()
    assert [message["role"] for message in chat] == [
        message["role"] for message in whole
    ]
    assert [message["content"] for message in chat if message["role"] == "user"] == [
        message["content"] for message in whole if message["role"] == "user"
    ]
    assert [message["role"] for message in chat].count("user") == 3


def test_a_response_is_judged_as_it_was_given(goal: Goal) -> None:
    text = JUDGED + 'deliverable = "response"\n'
    goal.write(
        text,
        agent("hello, friend"),
        judge(("it greets", [quote("o1", "hello, friend")])),
    )
    goal.run()
    last = goal.number_of("audit_started")
    for place in range(goal.number_of("round_started"), last + 1):
        goal.run_anew(("after", place))
        done = goal.resume()
        assert done.code == 0, (place, done)


def test_the_agents_own_model_judges_on(goal: Goal) -> None:
    text = JUDGED.replace('judge = "MODEL"', 'judge = "agent"')
    work = agent("", shell("echo hello > hi"), shell("cat hi"))
    replies = [work, agent("ok"), judge(("it greets", [quote("o2", "hello")]))]
    goal.write(text, *replies)
    goal.run()
    kinds = ("round_finished", "audit_started", "verdict_recorded")
    places = {kind: goal.number_of(kind) for kind in kinds}
    for kind, place in places.items():
        goal.run_anew(("after", place))
        done = goal.resume()
        assert (done.code, goal.outcome()["models"]["judge"]) == (
            0,
            goal.outcome()["models"]["agent"],
        ), (kind, done)


@pytest.mark.parametrize(
    ("kind", "again"),
    [
        ("round_finished", "validators_finished"),
        ("validators_finished", "validators_finished"),
        ("verdict_recorded", "validators_finished"),
    ],
)
def test_what_changed_between_sessions_is_checked_again(
    goal: Goal, kind: str, again: str
) -> None:
    """At each phase: what was seen on other files proves nothing, and agent and judge are told."""
    text = JUDGED + 'validator = "cat hi"\nmax_iterations = 3\n'
    replies = [
        agent("", shell("echo hello > hi; cat hi")),
        agent("ok"),
        *(
            []
            if kind in ("round_finished", "validators_finished")
            else [judge(("it greets", [quote("o3", "hello")]))]
        ),
        judge(("it greets", []), missing="say goodbye as well"),
        agent("", shell("cat hi")),
        agent("look"),
        judge(("it greets", []), missing="enough"),
        agent("ok"),
        judge(("it greets", []), missing="enough"),
    ]
    goal.write(text, *replies)
    whole = goal.run()
    assert whole.code != 2
    goal.run_anew(("after", goal.number_of(kind)))
    before = len(goal.records())
    (goal.work / "hi").write_text("hello\nsomebody was here\n")
    goal.resume()
    happened = [record.event for record in goal.records()[before:]]
    resumed = next(event for event in happened if event.type == "run_resumed")
    assert resumed.changed == ("hi",)
    kinds = [str(event.type) for event in happened]
    assert kinds.index(again) < kinds.index(
        "verdict_recorded" if "verdict_recorded" in kinds else "round_started"
    )
    assert "run_ended" not in kinds[: kinds.index(again)]
    told = [message["content"] for message in goal.chat() if message["role"] == "user"]
    assert any(
        "These files have changed" in content and "- hi" in content for content in told
    )


def test_the_judge_is_told_of_changes_from_outside(goal: Goal) -> None:
    from tests.support.model_server import ModelServer, say

    with ModelServer(lambda seen: say("no JSON")) as server:
        keys = f'api_base = "{server.base_url}"\n'
        judged = f'[judge]\nmodel = "openai/judge"\n{keys}'
        text = 'objective = "greet"\nmodel = "MODEL"\nmax_iterations = 1\n'
        goal.write(text + judged, agent("", shell("echo x > mine")), agent("ok"))
        env = {"OPENAI_API_KEY": "none"}
        assert goal.run(kill=("after", 9), env=env).code == -9
        (goal.work / "theirs").write_text("somebody\n")
        goal.resume(env=env)
        audits = [seen for seen in server.requests if seen.body.get("max_tokens") != 1]
        asked = str(audits[0].messages[-1]["content"])
    assert f"theirs ({OUTSIDE})" in asked
    assert f"mine ({OUTSIDE})" not in asked
    assert "mine" in asked


def test_a_wrong_key_that_was_mended_is_no_end(goal: Goal) -> None:
    from tests.support.model_server import ModelServer, call, say

    with ModelServer(
        [call("shell", command="touch done"), say("yes")], api_key="right"
    ) as server:
        agent_table = (
            f'[agent]\nmodel = "openai/agent"\napi_base = "{server.base_url}"\n'
        )
        goal.write(
            f'objective = "make done"\nvalidator = "test -e done"\n{agent_table}'
        )
        assert goal.run(env={"OPENAI_API_KEY": "wrong"}).code == 4
        assert goal.outcome()["stop_reason"] == "authentication"
        done = goal.resume(env={"OPENAI_API_KEY": "right"})
    assert done.code == 0, done


def test_a_stalled_run_goes_on(goal: Goal) -> None:
    replies = [
        agent("no"),
        agent("no"),
        agent("no"),
        agent("", shell("touch done")),
        agent("yes"),
    ]
    goal.write(PLAIN + "stall_rounds = 2\n", *replies)
    assert goal.run().code == 3
    assert goal.outcome()["stop_reason"] == "stalled"
    assert goal.resume("--note", "touch it").code == 0


def test_fewer_tests_than_at_the_start_are_refused_by_a_resumed_run_too(
    goal: Goal,
) -> None:
    (goal.work / "test_it.py").write_text(
        "def test_one():\n    pass\n\ndef test_two():\n    assert False\n"
    )
    text = 'objective = "make it green"\nmodel = "MODEL"\nvalidator = "python -m pytest -q"\nmax_iterations = 1\n'
    fewer = write_file(
        "conftest.py", "def pytest_collection_modifyitems(items):\n    del items[1:]\n"
    )
    goal.write(
        text,
        agent("", fewer),
        agent("green"),
        workspace='protect = ["test_*.py"]\nallow = ["conftest.py"]\n',
    )
    assert goal.run(kill=("after", 14)).code == -9
    ended = goal.resume()
    assert ended.code == 1, ended
    assert "test_two" in goal.outcome()["verdict"]["missing"]


def test_ignored_files_have_the_content_of_the_start_in_a_resumed_run_too(
    goal: Goal,
) -> None:
    (goal.work / "libs").mkdir()
    (goal.work / "libs" / "rule.txt").write_text("strict\n")
    (goal.work / ".gitignore").write_text("libs/\n")
    text = 'objective = "pass"\nmodel = "MODEL"\nvalidator = "test -e done && grep -q lax libs/rule.txt"\nmax_iterations = 1\n'
    replies = [agent("", shell("touch done; echo lax > libs/rule.txt")), agent("done")]
    goal.write(text, *replies, workspace='protect = ["*.md"]\n')
    goal.run(kill=("after", 12))
    assert goal.number_of("baseline_taken")
    ended = goal.resume()
    assert ended.code == 1, ended
    assert (goal.work / "libs" / "rule.txt").read_text() == "lax\n"


def test_a_python_validator_goes_on(goal: Goal) -> None:
    (goal.work / "checks.py").write_text(
        "import os\n\ndef done(*_):\n    return os.path.exists('done')\n"
    )
    text = 'objective = "x"\nmodel = "MODEL"\n[[validators]]\npython = "checks:done"\n'
    goal.write(text, agent("", shell("touch done")), agent("yes"))
    whole = goal.run()
    assert whole.code == 0, whole
    kinds = ("tool_result_recorded", "round_finished", "validators_finished")
    places = {kind: goal.number_of(kind) for kind in kinds}
    for kind in kinds:
        (goal.work / "done").unlink()
        assert goal.run(kill=("after", places[kind])).code == -9
        assert goal.resume().code == 0, kind


def test_a_new_goal_goes_on_with_the_conversation_of_a_run(goal: Goal) -> None:
    goal.write(
        PLAIN, agent("", shell("echo the password is swordfish")), agent("I know it")
    )
    goal.run("--max-iterations", "1")
    first = goal.folder.name
    said = goal.chat()
    goal.write(
        PLAIN.replace("make done", "now make done"),
        agent("", shell("touch done")),
        agent("yes"),
    )
    done = goal.run("--continue-from", first)
    assert done.code == 0, done
    assert f"continues  the conversation of {first}" in done.out
    chat = goal.chat()
    assert goal.folder.name != first
    assert chat[: len(said)] == said
    assert chat[len(said)]["content"].startswith("now make done")
    assert goal.command("verify").code == 0


def test_what_cannot_be_continued_says_why(goal: Goal) -> None:
    goal.write(PLAIN, agent("", shell("sleep 5")), agent("no"))
    missing = goal.run("--continue-from", "nope")
    assert (missing.code, "there is no run" in missing.err) == (2, True), missing
    goal.run(kill=("after", 8))
    silent = goal.run("--continue-from", goal.folder.name)
    assert (silent.code, "its agent wrote nothing" in silent.err) == (2, True), silent
    assert len(list((goal.home / "runs").iterdir())) == 1
    process = start("resume", cwd=goal.root)
    while not any(record.event.type == "tool_called" for record in goal.records()):
        assert process.poll() is None
    living = goal.run("--continue-from", goal.folder.name)
    assert (living.code, "is still active" in living.err) == (2, True), living
    process.terminate()
    process.communicate()
    (goal.root / "goal.toml").write_text(
        "preserve_context = false\n" + (goal.root / "goal.toml").read_text()
    )
    afresh = goal.run("--continue-from", goal.folder.name)
    assert (afresh.code, "preserve_context" in afresh.err) == (2, True), afresh


def test_outcome_of_an_earlier_life_is_not_taken_for_the_runs(goal: Goal) -> None:
    goal.write(
        PLAIN + "max_iterations = 1",
        agent("no"),
        agent("", shell("touch done")),
        agent("yes"),
    )
    goal.run()
    assert goal.outcome()["status"] == "capped"
    number = len(goal.records())
    assert goal.resume("--max-iterations", "3", kill=("after", 5)).code == -9
    assert len(goal.records()) > number
    assert not (goal.folder / "outcome.json").exists()
    earlier = (
        goal.folder / "outcome.earlier.json"
    )  # it stays until a new one is written: the disk may be full
    assert json.loads(earlier.read_text())["status"] == "capped"
    assert goal.command("verify").code == 0
    summary = json.loads((goal.folder / "summary.json").read_text())
    assert summary["status"] == "running"
    assert "lost" in goal.command("list").out
    assert Path(goal.folder).is_dir()
    assert goal.resume().code == 0
    assert (goal.outcome()["status"], earlier.exists()) == ("complete", False)


@pytest.mark.parametrize(
    ("retries", "code", "said"),
    [
        ("", 0, "flaky: v"),  # a third run decides
        (
            "retries = 0\n",
            1,
            "flaky: passed now, failed in the baseline on the same files",
        ),
    ],
    ids=["a third run", "retries = 0"],
)
def test_a_check_that_contradicts_itself_in_another_process_is_flaky_too(
    goal: Goal, retries: str, code: int, said: str
) -> None:
    """It looks at something outside of the workspace, which another process changed in between."""
    text = (
        'objective = "make done"\nmodel = "MODEL"\nmax_iterations = 1\n'
        f'[[validators]]\nname = "v"\nrun = "test -e {goal.root}/elsewhere"\n{retries}'
    )
    goal.write(text, agent("nothing to do"), agent("nothing to do"))
    assert goal.run().code == 1
    (goal.root / "elsewhere").write_text("")
    ended = goal.resume("--max-iterations", "2")
    assert (ended.code, said in ended.out) == (code, True), ended


def test_a_report_that_checks_write_anew_each_round_hides_no_stall(goal: Goal) -> None:
    text = (
        PLAIN.replace("test -e done", "date +%N > report.xml; test -e done")
        + "stall_rounds = 2\nmax_iterations = 9\n"
    )
    replies = [agent(f"no {number}") for number in range(9)]
    goal.write(text, *replies, workspace='outputs = ["report.xml"]\n')
    ended = goal.run()
    assert (ended.code, goal.outcome()["stop_reason"]) == (3, "stalled"), ended
    assert goal.outcome()["iterations"] < 9


def test_an_agent_that_writes_into_outputs_makes_progress(goal: Goal) -> None:
    text = PLAIN + "stall_rounds = 2\nmax_iterations = 6\n"
    work = [
        item
        for number in range(6)
        for item in (agent("", shell(f"echo {number} > report.xml")), agent("more"))
    ]
    goal.write(text, *work, workspace='outputs = ["report.xml"]\n')
    assert goal.run().code == 1
    assert goal.outcome()["stop_reason"] == "max_iterations"

"""`goal hook claude` as a process that an agent starts for each event, and the real Claude Code that does so."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from goalrunner.app.previous_run import read_events
from goalrunner.cli.main import main
from goalrunner.core.agent_preset import Preset
from goalrunner.hooks.stop_hook import HookEvent
from goalrunner.records.run_summaries import run_summaries
from tests.conformance.installed import missing, no_keys, search_path
from tests.support.command_line import GOAL, environment
from tests.support.fake_provider import SETTINGS, FakeProvider, run, say
from tests.support.forking import goal
from tests.support.recordings import judge, quote, recording

RED = 'objective = "The file done exists."\nvalidator = "test -e done"\nagent = "claude"\n'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder whose goal is not met."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "goal.toml").write_text(RED)
    return folder


def called(
    folder: Path, event: str, session: str = "s1", **more: Any
) -> dict[str, str]:
    """What the hook answers to an event; its exit code is always 0, since 2 would block."""
    given = {
        "session_id": session,
        "hook_event_name": event,
        "cwd": str(folder),
        "last_assistant_message": "Done.",
        **more,
    }
    return answered(json.dumps(given), folder)


def answered(text: str, folder: Path, **env: str) -> dict[str, str]:
    """What the hook answers to a text on stdin."""
    done = goal("hook", "claude", cwd=folder, env=env, stdin=text)
    assert done.code == 0, done.err
    hook_reply: dict[str, str] = json.loads(done.out or "{}")
    return hook_reply


def stopped(folder: Path, session: str) -> dict[str, str]:
    """What a process of its own answers to a stop."""
    event = json.dumps({"session_id": session, "cwd": str(folder)})
    argv = [*GOAL, "hook", "claude"]
    done = subprocess.run(
        argv,
        input=event,
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    hook_reply: dict[str, str] = json.loads(done.stdout)
    return hook_reply


def test_a_stop_is_blocked_until_the_goal_is_verified(
    project: Path, own_home: Path
) -> None:
    assert called(project, "UserPromptSubmit") == {}
    blocked = called(project, "Stop")
    assert blocked["decision"] == "block"
    assert "validator test: exit 1" in blocked["reason"]
    (project / "done").touch()
    assert "complete, verified in round 2" in called(project, "Stop")["systemMessage"]
    (summary,) = run_summaries(own_home)
    assert (summary["status"], summary["iterations"], summary["labels"]) == (
        "complete",
        2,
        [],
    )


@pytest.mark.slow
def test_tests_count_as_at_the_prompt_until_a_person_accepts_others(
    project: Path, own_home: Path
) -> None:
    (project / "test_it.py").write_text("def test_it():\n    assert False\n")
    (project / "goal.toml").write_text(RED.replace("test -e done", "pytest -q"))
    called(project, "UserPromptSubmit")
    (project / "test_it.py").write_text("def test_it():\n    assert True\n")
    (project / "new.py").write_text("")
    hook_reply = called(project, "Stop")
    assert (
        "blocked, this waits for a person: a1 checks changed: test_it.py"
        in hook_reply["systemMessage"]
    )
    (summary,) = run_summaries(own_home)
    about = f"{summary['run_id']} a1"
    assert hook_reply["systemMessage"].endswith(
        f" [protected files changed: test_it.py]; goal approve {about}, or goal deny"
        f" {about} --reason TEXT; the next stop of the session then goes on"
        f" (goal status {summary['run_id']})"
    )
    assert "goal resume" not in hook_reply["systemMessage"]
    assert main(["approve", str(summary["run_id"])]) == 0
    assert "complete" in called(project, "Stop")["systemMessage"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "weakened", [None, RED.replace("test -e done", "true")], ids=["removed", "weakened"]
)
def test_the_goal_is_that_of_the_prompt_also_if_its_file_is_changed(
    project: Path, weakened: str | None
) -> None:
    called(project, "UserPromptSubmit")
    (project / "goal.toml").unlink()
    if weakened is not None:
        (project / "goal.toml").write_text(weakened)
    assert called(project, "Stop")["decision"] == "block"
    (project / "done").touch()
    assert "complete" in called(project, "Stop")["systemMessage"]


@pytest.mark.slow
def test_a_run_whose_goal_file_was_changed_during_the_session_is_labelled(
    project: Path, own_home: Path
) -> None:
    called(project, "UserPromptSubmit")
    (project / "done").touch()
    called(project, "Stop")
    (project / "goal.toml").write_text(RED.replace("test -e done", "true"))
    for session in ("s1", "another session"):
        called(project, "UserPromptSubmit", session)
        called(project, "Stop", session)
    labels = sorted(summary["labels"] for summary in run_summaries(own_home))
    assert labels == [[], ["goal changed", "nothing changed"], ["nothing changed"]]


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_a_transcript_that_is_a_pipe_or_no_path_is_not_waited_for(
    project: Path, tmp_path: Path
) -> None:
    model = recording(
        tmp_path / "models.jsonl",
        *[judge(("it is done", []), missing="nothing shows it")] * 2,
    )
    (project / "goal.toml").write_text(
        f'objective = "x"\njudge = "{model}"\nagent = "claude"\n'
    )
    os.mkfifo(tmp_path / "pipe")
    called(project, "UserPromptSubmit")
    for path in (str(tmp_path / "pipe"), "a\0b"):
        assert called(project, "Stop", transcript_path=path)["decision"] == "block"


@pytest.mark.slow
def test_two_sessions_in_one_folder_are_checked_one_after_the_other(
    project: Path,
) -> None:
    (project / "goal.toml").write_text(
        RED.replace("test -e done", "sleep 1; test -e done")
    )
    for session in ("s1", "s2"):
        called(project, "UserPromptSubmit", session)
    with ThreadPoolExecutor() as threads:
        found = list(
            threads.map(lambda session: stopped(project, session), ("s1", "s2"))
        )
    assert [answer.get("decision") for answer in found] == ["block", "block"], found


@pytest.mark.slow
def test_a_session_whose_goal_was_removed_is_no_longer_checked_and_says_so(
    project: Path,
) -> None:
    (project / "done").touch()
    called(project, "UserPromptSubmit")
    called(project, "Stop")
    (project / "goal.toml").unlink()
    assert (
        "the folder has no goal any more"
        in called(project, "UserPromptSubmit")["systemMessage"]
    )


@pytest.mark.slow
def test_the_run_of_another_folder_is_not_that_of_a_session(
    project: Path, tmp_path: Path, own_home: Path
) -> None:
    easy = tmp_path / "easy"
    easy.mkdir()
    (easy / "goal.toml").write_text(RED.replace("test -e done", "true"))
    called(easy, "UserPromptSubmit", "s1")
    assert called(project, "Stop", "s1")["decision"] == "block"


@pytest.mark.slow
def test_a_session_in_a_folder_below_works_for_the_goal_of_the_repository(
    project: Path, own_home: Path
) -> None:
    (project / ".git").mkdir()
    (project / "src").mkdir()
    assert called(project / "src", "Stop")["decision"] == "block"
    (project / "done").touch()
    assert (
        "complete, verified in round 2"
        in called(project / "src", "Stop")["systemMessage"]
    )
    assert run_summaries(own_home)[0]["workspace"] == str(project)


@pytest.mark.slow
def test_a_goal_file_of_another_project_is_for_the_folder_of_the_session(
    project: Path, tmp_path: Path, own_home: Path
) -> None:
    (project / "Makefile").touch()
    folder = tmp_path / "other"
    folder.mkdir()
    event = json.dumps({"session_id": "s1", "cwd": str(folder)})
    ended = goal(
        "hook",
        "claude",
        "--goal",
        str(project / "goal.toml"),
        cwd=folder,
        env={},
        stdin=event,
    )
    assert json.loads(ended.out)["decision"] == "block"
    assert run_summaries(own_home)[0]["workspace"] == str(folder)


def test_without_a_goal_nothing_is_checked(project: Path, own_home: Path) -> None:
    (project / "goal.toml").unlink()
    assert called(project, "UserPromptSubmit") == called(project, "Stop") == {}
    assert run_summaries(own_home) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "given", [{"session_id": "\ud800"}, {"session_id": "s", "cwd": "a\0b"}]
)
def test_odd_events_are_answered(project: Path, given: dict[str, str]) -> None:
    hook_reply = answered(
        json.dumps({"hook_event_name": "UserPromptSubmit", **given}), project
    )
    assert (
        hook_reply == {}
        or "goal did not check this session" in hook_reply["systemMessage"]
    )


@pytest.mark.slow
def test_the_next_prompt_after_a_verified_one_begins_a_run_of_its_own(
    project: Path, own_home: Path
) -> None:
    (project / "done").touch()
    for _ in range(2):
        called(project, "UserPromptSubmit")
        assert "complete" in called(project, "Stop")["systemMessage"]
    assert [summary["labels"] for summary in run_summaries(own_home)] == [
        ["nothing changed"]
    ] * 2


@pytest.mark.slow
def test_limits_count_by_session_and_a_stop_is_allowed_when_they_are_used_up(
    project: Path, own_home: Path
) -> None:
    (project / "goal.toml").write_text(f"{RED}max_iterations = 2\n")
    called(project, "UserPromptSubmit")
    assert called(project, "Stop")["decision"] == "block"
    called(project, "UserPromptSubmit")
    last = called(project, "Stop")
    assert "decision" not in last
    assert "not verified: capped" in last["systemMessage"]
    called(project, "UserPromptSubmit")
    assert (
        "not checked: the goal's limits for this session are used up"
        in called(project, "Stop")["systemMessage"]
    )
    assert len(run_summaries(own_home)) == 1
    called(project, "UserPromptSubmit", "another session")
    assert called(project, "Stop", "another session")["decision"] == "block"


@pytest.mark.slow
def test_the_time_in_which_the_agent_works_counts_for_the_timeout(
    project: Path,
) -> None:
    (project / "goal.toml").write_text(f"{RED}timeout = 3\n")
    called(project, "UserPromptSubmit")
    time.sleep(3)
    assert "time limit of 3 s" in called(project, "Stop")["systemMessage"]


@pytest.mark.slow
def test_a_check_that_was_killed_is_made_again(project: Path) -> None:
    (project / "goal.toml").write_text(
        RED.replace("test -e done", "test -e fast || sleep 60; test -e done")
    )
    (project / "fast").touch()
    called(project, "UserPromptSubmit")
    (project / "fast").unlink()
    event, argv = {"session_id": "s1", "cwd": str(project)}, [*GOAL, "hook", "claude"]
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run(
            argv,
            input=json.dumps(event),
            cwd=project,
            env=environment(),
            timeout=4,
            text=True,
            check=False,
        )
    (project / "fast").touch()
    (project / "done").touch()
    assert "complete" in called(project, "Stop")["systemMessage"]


@pytest.mark.slow
def test_without_an_overlay_nothing_runs_in_place(
    project: Path, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    (project / "goal.toml").write_text(
        RED.replace("test -e done", f"touch {ran}")
        + '[workspace]\ncheck = "in-place"\n'
    )
    called(project, "UserPromptSubmit")
    hook_reply = called(project, "Stop")
    assert 'the goal says check = "in-place"' in hook_reply["systemMessage"]
    assert not ran.exists()


@pytest.mark.slow
def test_a_session_without_a_recorded_start_gets_a_label(
    project: Path, own_home: Path
) -> None:
    assert called(project, "Stop")["decision"] == "block"
    (project / "done").touch()
    assert "[start not recorded]" in called(project, "Stop")["systemMessage"]


@pytest.mark.slow
def test_a_judge_sees_the_tool_results_of_the_transcript(
    project: Path, tmp_path: Path, own_home: Path
) -> None:
    model = recording(
        tmp_path / "judge.jsonl",
        judge(("the tests pass", []), missing="run the tests"),
        judge(("the tests pass", [quote("o1", "3 passed")])),
    )
    (project / "goal.toml").write_text(
        f'objective = "The tests pass."\njudge = "{model}"\nagent = "claude"\n'
    )
    transcript = tmp_path / "session.jsonl"
    typed = {
        "type": "user",
        "message": {"role": "user", "content": "Reports are in German."},
    }
    added = {
        "type": "user",
        "isMeta": True,
        "message": {"role": "user", "content": "Think again."},
    }
    said = {
        "type": "assistant",
        "message": {
            "role": "assistant",
            "content": [{"type": "text", "text": "They pass."}],
        },
    }
    begun = [{"type": "mode", "mode": "normal"}, typed, added, said]
    transcript.write_text("".join(json.dumps(row) + "\n" for row in begun))
    called(project, "UserPromptSubmit", transcript_path=str(transcript))
    blocked = called(project, "Stop", transcript_path=str(transcript))
    assert "run the tests" in blocked["reason"]
    use = {
        "type": "tool_use",
        "id": "t1",
        "name": "Bash",
        "input": {"command": "pytest"},
    }
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "3 passed in 0.1s"}
    rows = [{"type": "assistant", "message": {"role": "assistant", "content": [use]}}]
    rows.append({"type": "user", "message": {"role": "user", "content": [result]}})
    rows.insert(
        0,
        {
            "type": "user",
            "message": {"role": "user", "content": f"Stop says: {blocked['reason']}"},
        },
    )
    with transcript.open("a") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    assert (
        "complete"
        in called(project, "Stop", transcript_path=str(transcript))["systemMessage"]
    )
    (summary,) = run_summaries(own_home)
    assert summary["labels"] == ["rests on reports"]
    written = [
        event.text
        for event in read_events(str(summary["run_id"]))
        if event.type == "user_said"
    ]
    assert written == ["Reports are in German."]


@pytest.mark.slow
def test_a_transcript_that_cannot_be_read_is_named_and_the_validators_run(
    project: Path, tmp_path: Path
) -> None:
    model = recording(tmp_path / "judge.jsonl", *[judge(("it is done", []))] * 2)
    (project / "goal.toml").write_text(
        f'objective = "x"\nvalidator = "test -e done"\njudge = "{model}"\n'
        'agent = "claude"\n'
    )
    transcript = tmp_path / "session.jsonl"
    called(project, "UserPromptSubmit")
    absent = called(project, "Stop", transcript_path=str(transcript))
    assert "validator test: exit 1" in absent["reason"]
    assert "transcript cannot be read" in absent["systemMessage"]
    said = {"type": "assistant", "message": {"role": "assistant", "content": "Done."}}
    transcript.write_text(f"{json.dumps(said)}\n\0\0\n{json.dumps(said)}\n")
    damaged = called(project, "Stop", transcript_path=str(transcript))
    assert "validator test: exit 1" in damaged["reason"]
    assert "transcript is damaged: line 2 (not valid JSON" in damaged["systemMessage"]


def test_half_of_a_surrogate_pair_is_no_reason_not_to_check() -> None:
    event = HookEvent.parsed(
        json.dumps({"session_id": "s", "last_assistant_message": "cut \ud83d"}).encode()
    )
    assert event.last_assistant_message == "cut ?"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "Invalid JSON"),
        ("[1]", "no event of a hook"),
        ('{"session_id": 3}', "session_id: "),
    ],
)
@pytest.mark.slow
def test_what_is_no_event_is_named_and_blocks_nothing(
    text: str, said: str, project: Path
) -> None:
    assert said in answered(text, project)["systemMessage"]


@pytest.mark.slow
def test_a_broken_goal_is_named_and_blocks_nothing(project: Path) -> None:
    (project / "goal.toml").write_text("objektive = 1\n")
    assert "goal.toml:1:1" in called(project, "Stop")["systemMessage"]


@pytest.mark.slow
def test_without_a_goal_and_in_a_run_of_goal_the_hook_is_silent(
    project: Path, own_home: Path
) -> None:
    event = json.dumps(
        {"session_id": "s1", "hook_event_name": "Stop", "cwd": str(project)}
    )
    assert answered(event, project, GOALRUNNER_LAUNCH="token") == {}
    (project / "goal.toml").unlink()
    assert answered(event, project) == {}
    assert run_summaries(own_home) == []


@pytest.mark.agents
def test_claude_code_is_blocked_goes_on_and_stops(
    project: Path, tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if why := missing(
        Preset(argv=("claude",), install="npm install -g @anthropic-ai/claude-code"),
        "command",
    ):
        pytest.skip(why)
    no_keys(monkeypatch)
    path = f"{Path(sys.executable).parent}{os.pathsep}{search_path()}"
    env = environment(
        PATH=path, HOME=str(tmp_path), IS_SANDBOX="1"
    )  # as root, claude wants to be in a sandbox
    subprocess.run(
        [*GOAL, "hook", "install", "claude", "--yes"],
        cwd=project,
        env=env,
        check=True,
        capture_output=True,
    )
    with FakeProvider(
        [say("Done."), run("touch done"), say("Now it is done.")], fresh=True
    ) as server:
        argv = [
            shutil.which("claude", path=path) or "",
            "-p",
            "Make the file.",
            "--dangerously-skip-permissions",
        ]
        env |= SETTINGS["claude"].at(server).env
        done = subprocess.run(
            argv,
            cwd=project,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            text=True,
        )
        assert (done.returncode, server.played) == (0, 3), done.stderr
    assert done.stdout.strip() == "Now it is done."
    (summary,) = run_summaries(own_home)
    assert (summary["status"], summary["iterations"], summary["labels"]) == (
        "complete",
        2,
        [],
    )

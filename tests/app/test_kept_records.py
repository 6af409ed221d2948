"""Which records of a run of the library are kept: `records="none"` writes nothing, and decides as a run with records."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalrunner import (
    Event,
    Goal,
    GoalController,
    GoalDone,
    GoalOutcome,
    Recorder,
    RoundReply,
    ToolResult,
    ValidatorSpec,
    arun_goal,
    chat_conversation,
    resume,
    run_goal,
    run_goal_file,
)
from goalrunner.core.errors import UsageError
from goalrunner.core.labels import Label
from tests.app.test_callers_mistakes import Agent, says
from tests.app.test_library_forms import Judge
from tests.support.recordings import agent, judge, quote, recording, shell, write_file


@contextmanager
def no_file_written(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail at each call that could make, write, rename or remove a file."""

    def refuse(name: str) -> Callable[..., Any]:
        def refused(*arguments: object, **_: object) -> Any:
            raise AssertionError(f"os.{name} was called: {arguments}")

        return refused

    opened = os.open

    def open_to_read(path: Any, flags: int, *more: Any, **named: Any) -> int:
        writes = os.O_WRONLY | os.O_RDWR | os.O_CREAT
        assert not flags & writes, f"{path} was opened for writing"
        return opened(path, flags, *more, **named)

    with monkeypatch.context() as patch:
        for name in ("mkdir", "rename", "replace", "unlink", "rmdir", "fsync"):
            patch.setattr(os, name, refuse(name))
        patch.setattr(os, "open", open_to_read)
        yield


def test_nothing_is_written_and_every_event_is_received(
    own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[Event] = []
    with no_file_written(monkeypatch):
        outcome = run_goal(
            Agent("bad", "good"),
            "Be good.",
            validators=[says("good")],
            max_iterations=3,
            records="none",
            on_event=events.append,
        )
    assert (outcome.status, outcome.iterations) == ("complete", 2)
    assert (outcome.run_id, outcome.run_path) == ("", "")
    assert [event.type for event in events][:2] == ["goal_created", "run_started"]
    assert events[-1].type == "run_ended"
    assert not list(own_home.iterdir())
    assert not list(Path.cwd().iterdir())


def test_a_workspace_is_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir(mode=0o300)
    with no_file_written(monkeypatch):
        outcome = run_goal(
            Agent("good"),
            "Be good.",
            validators=[says("good")],
            workspace=workspace,
            records="none",
        )
    assert outcome.status == "complete"
    assert outcome.labels == ("not isolated", Label.NO_SNAPSHOTS)[1:]


def test_a_controller_keeps_nothing(own_home: Path) -> None:
    controller = GoalController(
        "Be good.", validators=[says("good")], records="none", max_iterations=2
    )
    chat = [{"role": "user", "content": controller.start()}]
    chat.append({"role": "assistant", "content": "good"})
    step = controller.on_run_finished(chat)
    assert isinstance(step, GoalDone)
    assert (step.outcome.status, controller.run_path) == ("complete", "")
    assert not list(own_home.iterdir())


def test_output_of_commands_of_the_agent_is_in_a_file_only_while_they_run(
    tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    model = recording(
        tmp_path / "r.jsonl",
        agent("", shell("printf %s-o-%s four four")),
        agent("done"),
    )
    passed = judge(("printed", [quote("o1", "four-o-four")]))["text"]
    outcome = run_goal(
        chat_conversation(model, workspace=workspace),
        "Print it.",
        Judge(passed),
        records="none",
    )
    assert outcome.status == "complete"
    assert not list(scratch.iterdir())
    assert not list(own_home.iterdir())


def test_evidence_is_outdated_by_a_later_change(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    model = recording(
        tmp_path / "r.jsonl",
        agent("", shell("echo $((1 + 2)) passed")),
        agent("", write_file("a.py", "broken(")),
        agent("done"),
    )
    claimed = judge(("tests pass", [quote("o1", "3 passed")]))["text"]
    outcome = run_goal(
        chat_conversation(model, workspace=workspace),
        "Make the tests pass.",
        Judge(claimed, claimed),
        records="none",
        max_iterations=1,
    )
    assert outcome.status == "capped"
    assert outcome.verdict
    assert "a.py changed after o1" in outcome.verdict.model_dump_json()


@pytest.mark.parametrize(
    ("arguments", "refused", "hint"),
    [
        (
            {"validators": "pytest -q"},
            "the validator pytest -q cannot run",
            'records="last:20"',
        ),
        (
            {"validators": ValidatorSpec(name="own", python="checks:own")},
            "the validator own cannot run",
            "pass a function",
        ),
        (
            {"objective": Goal(objective="x", validator="pytest -q")},
            "the validator pytest cannot run",
            "pass a function",
        ),
        (
            {
                "objective": Goal(objective="x", critic={"run": "score"}),
                "validators": says("x"),
            },
            "the critic score cannot run",
            "pass a function: critic=...",
        ),
        (
            {
                "objective": Goal(objective="x", risk_class="high"),
                "validators": says("x"),
            },
            "the goal has approvals",
            "pass approver=...",
        ),
        ({"records": "last:0"}, 'not the string "last:0"', "RunKeywords"),
        ({"records": "none "}, 'records must be "all", "none", or "last:20"', ""),
        ({"records": 20}, "not the number 20", ""),
    ],
)
def test_what_needs_records_is_refused_with_what_to_write(
    arguments: dict[str, Any], refused: str, hint: str, own_home: Path
) -> None:
    keywords = {"objective": "x", "records": "none", **arguments}
    with pytest.raises(UsageError) as error:
        run_goal(Agent("x"), **keywords)
    assert refused in error.value.message
    assert hint in error.value.hint
    assert not list(own_home.iterdir())


def test_an_agent_of_a_goal_file_needs_records(tmp_path: Path, own_home: Path) -> None:
    path = tmp_path / "goal.toml"
    path.write_text(
        'objective = "x"\njudge = "scripted/none.jsonl"\n'
        'agent = {use = "command", command = "true"}\n'
    )
    with pytest.raises(UsageError, match="needs a conversation of your program"):
        run_goal_file(path, records="none")
    assert not list(own_home.iterdir())


class Asking(Agent):
    """An agent that asks a person, or uses an unknown number of tokens."""

    async def send(self, prompt: str, recorder: Recorder) -> Any:
        if self._answers == ["asks"]:
            question = ToolResult("c", "ask", "Which one?", (), b"", notice="question")
            await recorder.tool_result(question)
        return self.answer(prompt)


@pytest.mark.parametrize(
    ("answer", "keywords", "message"),
    [
        ("asks", {}, "Which one?\npass approver=..., which answers in the program"),
        (
            "works",
            {"tokens": 10},
            "Goal(budget=Budget(allow_unenforced=['tokens'])) counts only what is known",
        ),
    ],
)
def test_messages_name_no_command_for_a_run_that_is_gone(
    answer: str, keywords: Any, message: str
) -> None:
    outcome = run_goal(
        Asking(answer), "x", validators=[says("x")], records="none", **keywords
    )
    assert message in outcome.message
    assert "goal " not in outcome.message


async def test_a_run_that_is_cancelled_says_not_that_it_is_saved() -> None:
    class Slow(Agent):
        async def send(self, prompt: str, recorder: Recorder) -> Any:
            began.set()
            await asyncio.sleep(60)

    began, events = asyncio.Event(), list[Event]()
    running = asyncio.ensure_future(
        arun_goal(
            Slow(), "x", validators=[says("x")], records="none", on_event=events.append
        )
    )
    await began.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    (ended,) = (event for event in events if event.type == "run_ended")
    assert ended.message == "interrupted"


def test_an_outcome_without_records_cannot_be_resumed() -> None:
    outcome = run_goal(
        Agent("bad"), "x", validators=[says("x")], records="none", max_iterations=1
    )
    with pytest.raises(UsageError, match='kept no records: records="none"'):
        resume(outcome, Agent("x"), validators=[says("x")])


def test_a_defect_of_the_conversation_is_logged(
    caplog: pytest.LogCaptureFixture, own_home: Path
) -> None:
    outcome = run_goal(Agent(), "x", validators=[says("x")], records="none")
    assert (outcome.status, outcome.stop_reason) == ("failed", "agent_failed")
    assert 'in the log of the logger "goalrunner"' in outcome.message
    assert "pop from empty list" in caplog.text
    assert not list(own_home.iterdir())


class Worker:
    """A conversation that reports a tool result in each turn."""

    def __init__(self, turns: list[tuple[str, str]]) -> None:
        self.messages: list[dict[str, Any]] = []
        self._turns = iter(turns)

    async def send(self, prompt: str, recorder: Recorder) -> RoundReply:
        command, answer = next(self._turns, ("", "nothing more"))
        if command:
            output = f"output of {command}\n".encode()
            result = ToolResult("c", "shell", command, (), output, reported_by="worker")
            await recorder.tool_result(result)
        return RoundReply(answer)


ANSWERS = st.sampled_from(["good", "bad", "a key sk-ant-api03-" + "x" * 90, "\ud800"])
RESULTS = st.sampled_from(
    [True, False, {"passed": False, "feedback": "too long"}, None]
)


@given(
    turns=st.lists(st.tuples(st.sampled_from(["", "ls"]), ANSWERS), max_size=4),
    checks=st.lists(st.lists(RESULTS, max_size=4), min_size=1, max_size=2),
    judged=st.booleans(),
    in_workspace=st.booleans(),
    rounds=st.integers(1, 4),
)
def test_a_run_without_records_decides_as_one_with_them(
    turns: list[tuple[str, str]],
    checks: list[list[Any]],
    judged: bool,
    in_workspace: bool,
    rounds: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    workspace = tmp_path_factory.mktemp("workspace") if in_workspace else None

    def run(records: str) -> GoalOutcome:
        return run_goal(
            Worker(turns),
            "Be good.",
            _by_quote if judged else None,
            validators=[_playing(results) for results in checks],
            max_iterations=rounds,
            workspace=workspace,
            records=records,
        )

    kept, not_kept = run("all"), run("none")
    assert _decisions(not_kept) == _decisions(kept)


def _playing(results: list[Any]) -> Callable[[], Any]:
    """Return a validator that returns one result after the other, and then passes; it fails at None."""
    left = iter(results)

    def check() -> Any:
        result = next(left, True)
        if result is None:
            raise ValueError("defect")
        return result

    return check


def _by_quote(messages: Any) -> str:
    """Judge by the newest answer: it has to contain the word."""
    text = str(messages)
    newest = max(
        (number for number in range(1, 40) if f"o{number} " in text), default=1
    )
    answer = judge(
        ("good", [quote(f"o{newest}", "good")] if "good" in text else []),
        missing="it is not good",
    )
    return str(answer["text"])


def _decisions(outcome: GoalOutcome) -> dict[str, Any]:
    labels = [label for label in outcome.labels if label != Label.NO_SNAPSHOTS]
    # Only a run with records has snapshots of the workspace.
    evidence = [row.model_dump(exclude={"snapshot"}) for row in outcome.evidence]
    return {
        "labels": labels,
        "evidence": evidence,
        **outcome.model_dump(
            include={
                "status",
                "stop_reason",
                "iterations",
                "attempts",
                "verdict",
                "redacted",
                "usage",
            }
        ),
    }

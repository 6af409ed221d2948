"""Recorded runs are replayed: to the same decision, and to another one where something was changed."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from goalrunner import Goal, GoalOutcome, run_goal
from goalrunner.cli.main import main
from goalrunner.core.agent_ports import Recorder, ToolResult
from goalrunner.core.errors import RecordError, UsageError, WorkspaceError
from goalrunner.core.events import VerdictRecorded
from goalrunner.core.goal_tables import JudgeConfig
from goalrunner.judge.check_review import REVIEW_SYSTEM_PROMPT
from goalrunner.judge.prompt_text import CONFIRM_SYSTEM_PROMPT
from goalrunner.records.run_folder import RunFolder
from goalrunner.system.change_clock import ChangeClock
from goalrunner.testing import Replay, ScriptedApprover, replay, shell_result
from goalrunner.testing.recording import FileContent, FilesChanged, Recording
from goalrunner.testing.replay import _given_answer
from tests.support.kept_run import kept_run
from tests.support.recordings import judge as verdict
from tests.support.recordings import quote, review

HONEST = verdict(("out says yes", [quote("o2", "yes")]))["text"]
FALSE = verdict(("out says yes", [quote("o2", "no such words")]))["text"]


def settle() -> None:
    """Wait until a later tool is later than the changes by the clock of file times."""
    clock = ChangeClock()
    clock.note()
    clock.after_changes()


class Worker:
    """An agent that changes files, and shows them."""

    name = "worker"

    def __init__(self, folder: Path, *rounds: dict[str, str | bytes | None]) -> None:
        self.messages: list[dict[str, Any]] = []
        self.rounds = list(rounds)
        self.folder = folder
        self.reported_by = "worker"

    async def send(self, prompt: str, recorder: Recorder) -> str:
        recorder.message({"role": "user", "content": prompt})
        for name, content in self.rounds.pop(0).items():
            file = self.folder / name
            if content is None:
                file.unlink()
            elif isinstance(content, bytes):
                file.write_bytes(content)
            else:
                file.write_text(content)
        settle()
        for path in sorted(self.folder.glob("out*")):
            recorder.tool_called(path.name, "shell", f"cat {path.name}")
            text = path.read_bytes()
            await recorder.tool_result(
                ToolResult(
                    path.name,
                    "shell",
                    f"cat {path.name}",
                    ("exit 0",),
                    text,
                    reported_by=self.reported_by,
                )
            )
        recorder.message({"role": "assistant", "content": "Done."})
        return "Done."


class Answering:
    """A judge of the program with one answer."""

    def __init__(self, answer: str) -> None:
        self.answer = answer

    def complete(self, messages: object) -> str:
        return self.answer


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "old").write_text("old")
    monkeypatch.chdir(tmp_path)
    return folder


def judged(
    folder: Path, answer: str, *rounds: dict[str, str | bytes | None], **options: Any
) -> GoalOutcome:
    worker = Worker(folder, *(rounds or ({"out": "yes\n"},)))
    return run_goal(
        worker, "out says yes", lambda _: answer, workspace=folder, **options
    )


def decision(outcome: GoalOutcome) -> tuple[Any, ...]:
    verdict = outcome.verdict
    found = (verdict.complete, verdict.missing) if verdict else None
    return outcome.status, outcome.stop_reason, outcome.iterations, found


def saved(run: str, file: Path) -> Replay:
    """Return the replay of an exported run."""
    file.parent.mkdir(exist_ok=True)
    assert main(["export", run, "--recording", "-o", str(file)]) == 0
    return replay(file)


def test_a_run_with_validators_is_replayed_with_its_files(
    folder: Path, tmp_path: Path
) -> None:
    first = run_goal(
        Worker(folder, {"out": "no"}, {"out": "yes", "old": None, "raw": b"\xff\x00"}),
        "out says yes",
        validators=["grep -q yes out", "test ! -e old"],
        workspace=folder,
    )
    assert (first.status, first.iterations) == ("complete", 2)
    shutil.rmtree(folder)
    incident = replay(first)
    target = tmp_path / "target"
    outcome = incident.run(workspace=target)
    assert decision(outcome) == decision(first)
    assert sorted(path.name for path in target.iterdir()) == ["out", "raw"]
    assert (target / "raw").read_bytes() == b"\xff\x00"


@pytest.mark.slow
def test_a_stricter_validator_changes_the_decision(folder: Path) -> None:
    first = judged(folder, HONEST, validators=["test -e out"])
    incident = replay(first)
    assert incident.run().status == "complete"
    outcome = incident.run(validators=["test -e proof"])
    assert (outcome.status, outcome.stop_reason) == ("capped", "max_iterations")
    assert outcome.verdict is not None
    assert "test -e proof" in outcome.verdict.missing


@pytest.mark.slow
def test_an_added_validator_does_not_break_citations(folder: Path) -> None:
    incident = replay(judged(folder, HONEST, validators=["test -e out"]))
    outcome = incident.run(validators=["true", "test -s out"])
    assert outcome.status == "complete", outcome.message


def test_a_judge_is_replayed_and_its_citations_are_checked_anew(folder: Path) -> None:
    refused = judged(folder, FALSE, max_iterations=1)
    assert refused.status == "capped"
    again = replay(refused).run()
    assert decision(again) == decision(refused)


@pytest.mark.slow
def test_another_goal_or_policy_changes_the_decision(folder: Path) -> None:
    answer = verdict(("out says yes", [quote("o1", "yes")]))["text"]
    incident = replay(judged(folder, answer))
    assert incident.status == "complete"
    strict = incident.goal.model_copy(update={"judge": JudgeConfig(require="runner")})
    assert incident.run().status == "complete"
    assert incident.run(goal=strict).status == "capped"
    scored = incident.goal.model_copy(update={"judge": JudgeConfig(minimum_score=1.0)})
    assert incident.run(goal=scored).status == "complete"
    other = Goal(objective="out says yes", success_criteria=("old is gone",))
    limited = other.model_copy(update={"max_iterations": 1})
    # The recorded answers say nothing about another criterion.
    assert incident.run(goal=limited).status != "complete"


def test_a_lower_minimum_score_accepts_what_was_refused(folder: Path) -> None:
    answer = json.loads(verdict(("out says yes", [quote("o1", "yes")]))["text"])
    low = json.dumps({**answer, "score": 0.6})
    goal = Goal(
        objective="out says yes",
        judge=JudgeConfig(minimum_score=0.9),
        max_iterations=1,
    )
    first = run_goal(
        Worker(folder, {"out": "yes\n"}), goal, lambda _: low, workspace=folder
    )
    assert first.status == "capped"
    incident = replay(first)
    assert decision(incident.run()) == decision(first)
    lower = incident.goal.model_copy(update={"judge": JudgeConfig(minimum_score=0.5)})
    assert incident.run(goal=lower).status == "complete"


@pytest.mark.slow
def test_results_before_and_after_a_change_stay_fresh_or_outdated(
    folder: Path,
) -> None:
    class Late(Worker):
        async def send(self, prompt: str, recorder: Recorder) -> str:
            self.messages.append({"role": "user", "content": prompt})
            for name in ("first", "second"):
                recorder.tool_called(name, "shell", f"show {name}")
                if name == "first":
                    (folder / "new").write_text("new")
                    settle()
                result = shell_result(name, f"show {name}", f"{name} yes")
                await recorder.tool_result(
                    replace(result, reported_by=self.reported_by)
                )
            recorder.message({"role": "assistant", "content": "Done."})
            return "Done."

    for reporter in ("worker", ""):
        for observation, words in (("o1", "first yes"), ("o2", "second yes")):
            answer = verdict(("it is yes", [quote(observation, words)]))["text"]
            agent = Late(folder)
            agent.reported_by = reporter
            (folder / "new").unlink(missing_ok=True)
            first = run_goal(
                agent,
                "it is yes",
                Answering(answer),
                workspace=folder,
                max_iterations=1,
            )
            again = replay(first).run()
            assert first.passed is (observation == "o2"), (reporter, observation)
            assert decision(again) == decision(first)


def test_a_recording_is_one_file_without_the_machine(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_home: Path
) -> None:
    monkeypatch.setenv("SERVICE_TOKEN", "tok-123456789-secret")
    first = judged(
        folder,
        verdict(("it", [quote("o1", "this was made in")]))["text"],
        {
            "out": f"this was made in {folder}\n",
            "config": "token = tok-123456789-secret\n",
        },
    )
    assert first.status == "complete"
    incident = saved(first.run_id, tmp_path / "incidents" / "one.json")
    text = (tmp_path / "incidents" / "one.json").read_text()
    shutil.rmtree(own_home)
    shutil.rmtree(folder)
    assert str(tmp_path) not in text
    assert "secret" not in text
    assert "made in /workspace" in text
    assert incident.recording.model_validate(json.loads(text))
    assert incident.run().status == "complete"


def test_functions_of_the_program_are_passed_again(folder: Path) -> None:
    first = run_goal(
        Worker(folder, {"out": "yes"}),
        "out says yes",
        validators=[lambda response, _: True],
        workspace=folder,
    )
    incident = replay(first.run_path)
    with pytest.raises(UsageError, match="by functions of its program"):
        incident.run()
    assert incident.run(validators=[lambda response, _: True]).passed
    assert not incident.run(validators=[lambda response, _: False]).passed


def test_a_response_is_replayed_from_the_folder_alone(tmp_path: Path) -> None:
    class Writer:
        def __init__(self, *answers: str) -> None:
            self.messages: list[Any] = []
            self.answers = list(answers)

        async def send(self, prompt: str) -> str:
            return self.answers.pop(0)

    def short(response: Any, _: Any) -> bool:
        return len(response["content"][0]["text"]) < 6

    first = run_goal(Writer("too long", "short"), "Be short.", validators=[short])
    copy = tmp_path / "copy"
    shutil.copytree(first.run_path, copy)
    shutil.rmtree(first.run_path)
    outcome = replay(copy).run(validators=[short])
    assert decision(outcome) == decision(first)
    assert outcome.iterations == 2


@pytest.mark.slow
def test_an_error_of_the_agent_is_replayed(folder: Path) -> None:
    first = run_goal(
        Worker(folder, {"out": "no"}),
        "out says yes",
        validators=["grep -q yes out"],
        workspace=folder,
    )
    assert (first.status, first.stop_reason) == ("failed", "agent_failed")
    again = replay(first).run()
    assert decision(again) == decision(first)


@pytest.mark.slow
def test_a_critic_gives_its_recorded_scores(folder: Path) -> None:
    class Strict:
        threshold = 0.4
        max_refinements = 3

        def __init__(self) -> None:
            self.scores = iter([0.2, 0.5])

        def __call__(self, response: Any, agent: Any) -> float:
            return next(self.scores)

    first = run_goal(
        Worker(folder, {"out": "no"}, {"out": "yes"}),
        "out says yes",
        validators=["grep yes out"],
        workspace=folder,
        critic=Strict(),
    )
    incident = replay(first)
    assert len(incident.recording.turns) == 2
    outcome = incident.run()
    assert decision(outcome) == decision(first)
    assert outcome.iterations == 1


@pytest.mark.slow
def test_a_person_decides_as_recorded(folder: Path) -> None:
    class Asking(Worker):
        supports_approvals = True

    first = run_goal(
        Asking(folder, {"out": "yes"}, {"out": "yes!"}),
        Goal(
            objective="out says yes",
            validator="grep yes out",
            approvals={"require": ["complete"], "on_deny": "continue"},
        ),
        workspace=folder,
        approver=ScriptedApprover("say it louder", True),
    )
    assert (first.status, first.iterations) == ("complete", 2)
    assert decision(replay(first).run()) == decision(first)


class Deciding:
    """A judge that answers each kind of question in one way."""

    def __init__(self, rules: str, answer: str, other: str) -> None:
        self.rules, self.answer, self.other = rules, answer, other

    def complete(self, messages: Any) -> str:
        is_asked = messages[0]["content"].startswith(self.rules)
        return self.answer if is_asked else self.other


@pytest.mark.slow
def test_a_second_opinion_is_replayed(folder: Path) -> None:
    blocked = json.loads(verdict(("it", []), missing="a key")["text"])
    judge = Deciding(
        CONFIRM_SYSTEM_PROMPT,
        json.dumps({"confirmed": True, "reason": "there is no key"}),
        json.dumps({**blocked, "blocked": "there is no key"}),
    )
    first = run_goal(
        Worker(folder, {"out": "1"}, {"out": "2"}, {"out": "3"}),
        "it",
        judge,
        workspace=folder,
    )
    assert (first.status, first.stop_reason) == ("blocked", "impossible")
    assert decision(replay(first).run()) == decision(first)


@pytest.mark.slow
def test_a_review_of_changed_checks_is_replayed(folder: Path) -> None:
    (folder / "app.sh").write_text("echo one\n")
    (folder / "check.sh").write_text('test "$(sh app.sh)" = one\n')
    judge = Deciding(
        REVIEW_SYSTEM_PROMPT,
        review((["hunk-1"], "check.sh expects two"))["text"],
        verdict(("it prints two", [quote("o2", "two")]))["text"],
    )
    changed: dict[str, str | bytes | None] = {
        "app.sh": "echo two\n",
        "check.sh": 'test "$(sh app.sh)" = two\n',
        "out": "two\n",
    }
    first = run_goal(
        Worker(folder, changed),
        Goal(
            objective="app.sh prints two, and check.sh expects two",
            validator="sh check.sh",
        ),
        judge,
        workspace=folder,
    )
    assert first.status == "complete"
    again = replay(first).run()
    assert (decision(again), again.labels) == (decision(first), first.labels)


@pytest.mark.slow
def test_a_stalled_run_stalls_again(folder: Path) -> None:
    rounds: list[dict[str, str | bytes | None]] = [{"out": "no"}] * 5
    first = run_goal(
        Worker(folder, *rounds), "x", validators=["grep yes out"], workspace=folder
    )
    assert first.stop_reason == "stalled"
    assert decision(replay(first).run()) == decision(first)


def test_a_judge_that_was_never_asked_cannot_answer(folder: Path) -> None:
    first = judged(folder, HONEST, validators=["false"], max_iterations=1)
    incident = replay(first)
    changed = incident.goal.model_copy(update={"validators": ()})
    outcome = incident.run(goal=changed)
    assert (outcome.status, outcome.stop_reason) == ("failed", "judge_failed")
    assert "gave no verdict of round 1" in outcome.message


@pytest.mark.slow
def test_the_parts_can_be_given_to_run_goal(folder: Path, tmp_path: Path) -> None:
    incident = replay(judged(folder, HONEST, validators=["test -e out"]))
    outcome = run_goal(
        incident.conversation,
        incident.goal,
        incident.judge,
        workspace=incident.prepare(tmp_path / "target"),
    )
    assert outcome.passed


async def test_in_an_event_loop(folder: Path) -> None:
    from goalrunner import arun_goal

    first = await arun_goal(
        Worker(folder, {"out": "yes"}), "x", validators=["true"], workspace=folder
    )
    incident = replay(first)
    assert (await incident.arun()).passed
    with pytest.raises(UsageError, match=r"await Replay\.arun"):
        incident.run()


def test_a_workspace_with_files_is_refused(folder: Path) -> None:
    incident = replay(judged(folder, HONEST, validators=["test -e out"]))
    with pytest.raises(UsageError, match="is not empty"):
        incident.run(workspace=folder)


def test_a_run_that_was_killed_is_refused(own_home: Path) -> None:
    run = kept_run(own_home)
    log = run.events.read_text().splitlines(keepends=True)
    run.events.write_text("".join(log[:-1]))
    with pytest.raises(UsageError, match="was killed before its end") as refused:
        replay("k3f9-make-parse")
    assert "goal resume k3f9-make-parse" in refused.value.hint


def test_a_run_that_is_still_active_is_refused(folder: Path) -> None:
    seen: list[str] = []

    class Asking(Worker):
        async def send(self, prompt: str, recorder: Recorder) -> str:
            (run,) = (folder.parent / "home" / "runs").iterdir()
            with pytest.raises(UsageError, match="is still active") as refused:
                replay(run)
            seen.append(refused.value.hint)
            return await super().send(prompt, recorder)

    agent = Asking(folder, {"out": "yes"})
    home = folder.parent / "home"
    run_goal(agent, "x", validators=["test -e out"], workspace=folder, home=home)
    assert "goal cancel" in seen[0]


def test_a_damaged_folder_is_refused(folder: Path) -> None:
    first = judged(folder, HONEST, validators=["test -e out"])
    run = RunFolder(Path(first.run_path))
    (output,) = [
        path
        for path in run.artifacts.rglob("*")
        if path.is_file() and path.stat().st_size == 4
    ]
    output.write_text("ye!\n")
    with pytest.raises(RecordError, match="is damaged"):
        replay(first)
    run.events.write_text("{}\n" + run.events.read_text())
    with pytest.raises(RecordError):
        replay(first)


def test_a_run_without_its_snapshots_is_refused_with_the_command_to_export_it(
    folder: Path, own_home: Path
) -> None:
    first = judged(folder, HONEST, validators=["test -e out"])
    for store in own_home.glob("stores/*"):
        shutil.rmtree(store)
    with pytest.raises(WorkspaceError, match="cannot be replayed") as refused:
        replay(first)
    assert f"goal export {first.run_id} --recording -o FILE" in refused.value.hint


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Expecting value"),
        ("{}", "format"),
        ('{"format": "goalrunner recording 9"}', "format"),
        ("[1]", "Recording"),
    ],
)
def test_a_damaged_recording_is_refused(text: str, reason: str, tmp_path: Path) -> None:
    file = tmp_path / "one.json"
    file.write_text(text)
    with pytest.raises(RecordError, match="is not a recording of a run") as refused:
        replay(file)
    assert reason in refused.value.message
    assert "goal export RUN --recording" in refused.value.hint


@pytest.mark.parametrize("name", ["../out", "/etc/out", "link/out"])
def test_a_recording_writes_no_file_outside_of_its_workspace(
    name: str, tmp_path: Path
) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "link").symlink_to(tmp_path)
    with pytest.raises(RecordError, match="outside of its workspace"):
        FileContent(text="x").write(workspace, name)
    changed = FilesChanged(type="files", deleted=(name,))
    with pytest.raises(RecordError, match="outside of its workspace"):
        changed.perform(workspace)


def test_the_example_of_the_page(folder: Path, tmp_path: Path, own_home: Path) -> None:
    incidents = tmp_path / "tests" / "incidents"
    incidents.mkdir(parents=True)
    first = judged(folder, HONEST, validators=["test -e out"])
    saved(first.run_id, incidents / "parse.json")
    shutil.rmtree(own_home)
    page = Path(__file__).parents[2] / "docs" / "how-to" / "regression-tests.md"
    (example,) = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(example, str(page), "exec"), names)
    names["test_the_incident"]()
    names["test_the_stricter_validator_would_have_refused_it"]()


def test_a_run_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        replay("no-such-run")
    with pytest.raises(UsageError):
        replay(tmp_path / "nothing.json")


def test_a_recording_that_is_too_large_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    incident = replay(judged(folder, HONEST, validators=["test -e out"]))
    monkeypatch.setattr("goalrunner.testing.recording.LARGEST", 10)
    assert isinstance(incident.recording, Recording)
    with pytest.raises(UsageError, match="at most 10 are written"):
        _ = incident.recording.text


@pytest.mark.parametrize(
    ("own_words", "complete"), [("", True), ("The manual is not written.", False)]
)
def test_a_refused_citation_makes_no_answer_better_than_the_judge_gave_it(
    own_words: str, complete: bool
) -> None:
    refused = "Citation invalid: the quote is not there. Run it again."
    criterion = {"criterion": "out says yes", "satisfied": False, "missing": refused}
    words = [
        own_words,
        f"out says yes: {refused}",
        "The evidence as a whole is scored 0",
    ]
    recorded = VerdictRecorded.model_validate(
        {
            "round": 1,
            "refusals": ("out says yes: the quote is not there.",),
            "verdict": {
                "score": 0.5,
                "complete": False,
                "missing": "\n".join(filter(None, words)),
                "criteria": [criterion],
            },
        }
    )

    answer = _given_answer(recorded)

    assert answer["criteria"][0]["satisfied"]
    assert (answer["complete"], answer["missing"] == "") == (complete, complete)


def test_an_edited_recording_notifies_no_one_and_works_in_no_other_folder(
    tmp_path: Path,
) -> None:
    goal = (
        'objective = "x"\nvalidator = "true"\n'
        f'[notify]\ncommand = "touch {tmp_path}/notified"\n'
        f'[workspace]\npath = "{tmp_path}"\n'
    )
    recording = Recording.model_validate(
        {
            "format": "goalrunner recording 1",
            "run_id": "x",
            "status": "complete",
            "stop_reason": "satisfied",
            "goal": goal,
            "start": {"a": {"text": "1"}},
            "turns": [{"round": 1, "text": "done"}],
        }
    )

    incident = Replay(recording)

    assert incident.goal.notify.command == ""
    assert incident.goal.workspace.path != str(tmp_path)
    assert incident.run().passed
    assert not (tmp_path / "notified").exists()

"""Whole runs with a critic: a command, a Python callable, a model, and a callable of the calling program."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from goalrunner import LLM, Goal, GoalController, GoalDone, GoalOutcome, run_goal
from goalrunner.app.critic import Opened, SpecCritic
from goalrunner.app.doctor import check_readiness, dry_run
from goalrunner.app.run_options import RunOptions
from goalrunner.app.session import arun
from goalrunner.core import events
from goalrunner.core.critic import CriticConfig, UnusableCritiqueError
from goalrunner.core.errors import GoalError, UsageError, ValidatorMissing
from goalrunner.core.outcome import GoalStatus, StopReason, Usage
from goalrunner.goalfile.dumping import dump_goal
from goalrunner.goalfile.loading import load_goal
from goalrunner.records.event_log import read_records
from goalrunner.reports.progress import Progress
from goalrunner.reports.show import show_text
from goalrunner.system.launcher import ProcessLauncher
from goalrunner.testing import ScriptedConversation, ScriptedRound
from tests.support.agents import validation
from tests.support.logs import read_messages
from tests.support.memory import RecordingObserver
from tests.support.recordings import agent, judge, quote, recording, shell

SCRIPT = """\
import json, os, sys
response = sys.stdin.read()
assert open(os.environ["GOAL_RESPONSE_FILE"]).read() == response
assert os.environ["GOAL_OBJECTIVE"] == "Write a greeting." and os.environ["GOAL_ITERATION"] == "1"
open("left.txt", "w").write("x")
print("reading ...", file=sys.stderr)
print(json.dumps({"score": 0.9 if "friendly" in response else 0.4, "feedback": "make it friendly"}))
"""
WORK = (
    agent("", shell("echo hello > a.txt")),
    agent("hello"),
    agent("a friendly hello"),
)


class Place:
    """A workspace, a home, and the run of a goal in them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.workspace = root / "work"
        self.workspace.mkdir()
        self.observer = RecordingObserver()
        self.screen = io.StringIO()

    def options(self, **more: Any) -> RunOptions:
        """The options of a run here."""
        observers = (self.observer, Progress(self.screen))
        return RunOptions(
            home=self.root / "home",
            environ=dict(os.environ),
            observers=observers,
            **more,
        )

    def goal(self, *replies: dict[str, Any], **fields: Any) -> Goal:
        """A goal whose models play these replies."""
        model = recording(self.root / "models.jsonl", *(replies or WORK))
        table = {
            "objective": "Write a greeting.",
            "model": model,
            "validator": "test -e a.txt",
            "max_iterations": 2,
        }
        return Goal.model_validate(
            {**table, "workspace": {"path": str(self.workspace)}, **fields}
        )

    def run(self, *replies: dict[str, Any], **fields: Any) -> GoalOutcome:
        """Run the goal to its end."""
        return asyncio.run(arun(self.goal(*replies, **fields), self.options()))

    @property
    def critiques(self) -> list[events.CritiqueFinished]:
        """What the critic said."""
        said = [record.event for record in self.observer.records]
        return [event for event in said if isinstance(event, events.CritiqueFinished)]

    @property
    def scores(self) -> list[float | None]:
        """The scores."""
        return [critique.score for critique in self.critiques]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A workspace and a home."""
    return Place(tmp_path)


def prompts(outcome: GoalOutcome) -> list[str]:
    """The user messages of a run."""
    messages = read_messages(Path(outcome.run_path) / "transcript.jsonl")
    return [
        str(message["content"]) for message in messages if message["role"] == "user"
    ]


@pytest.mark.parametrize("check_kind", [None, "in-place"])
@pytest.mark.slow
def test_a_command_asks_for_one_refinement_in_the_same_round(
    place: Place, check_kind: str | None
) -> None:
    (place.workspace / "critic.py").write_text(SCRIPT)
    workspace = {"path": str(place.workspace), "check": check_kind}
    outcome = place.run(critic={"run": "python3 critic.py"}, workspace=workspace)
    assert (outcome.status, outcome.iterations) == (GoalStatus.COMPLETE, 1)
    assert place.scores == [0.4, 0.9]
    assert place.critiques[0].feedback == "make it friendly"
    assert "critic" not in outcome.usage
    refinement = prompts(outcome)[1]
    assert refinement.startswith("[critic] ")
    assert "score 0.40, at least 0.70 is wanted\n\nmake it friendly" in refinement
    # In place, new files of checks stay.
    assert (place.workspace / "left.txt").exists() is (check_kind == "in-place")
    assert (
        "· critic  0.40                       make it friendly"
        in place.screen.getvalue()
    )
    shown = "".join(
        show_text(
            read_records(Path(outcome.run_path) / "events.jsonl"),
            folder=outcome.run_path,
        )
    )
    assert "critic     python3 critic.py · at least 0.70" in shown
    assert "· critic  0.90" in shown


def test_a_command_that_fails_neither_stops_nor_passes_anything(place: Place) -> None:
    critic = {"run": "echo sad >&2; exit 3"}
    outcome = place.run(
        *WORK[:2], critic=critic, validator="test -e b.txt", max_iterations=1
    )
    assert (outcome.status, outcome.stop_reason) == (
        GoalStatus.CAPPED,
        StopReason.MAX_ITERATIONS,
    )
    assert place.scores == [None]
    assert "exit 3: sad" in place.critiques[0].problem
    assert re.search(r"! critic +gave no usable score", place.screen.getvalue())


async def problem_of(
    folder: Path, run: str | None = None, python: str | None = None
) -> str:
    """Return why a critic gives no score."""
    launcher = ProcessLauncher()

    @contextlib.asynccontextmanager
    async def open_place() -> AsyncIterator[Opened]:
        yield Opened(launcher, folder, dict(os.environ))

    context = validation(folder, folder, response="hello")
    spec = CriticConfig(run=run, python=python).spec
    assert spec is not None
    try:
        critique = await SpecCritic(spec, open_place).review(context, Mock(), Mock())
        return critique.problem
    except UnusableCritiqueError as error:
        return str(error)
    finally:
        launcher.close()


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("exit 3", "exit 3"),
        ("echo perfect", "the last line is 'perfect'"),
        ("true", "the last line is ''"),
        ("echo 7", "the answer is 7"),
        ("kill -9 $$", "SIGKILL"),
    ],
)
async def test_a_command_that_gives_no_score_is_a_problem(
    tmp_path: Path, command: str, problem: str
) -> None:
    assert problem in await problem_of(tmp_path, command)


@pytest.mark.parametrize(
    "body",
    ["return 'good'", "raise ValueError()", "return {1, 2}", "import os; os._exit(0)"],
)
async def test_a_python_callable_that_gives_no_score_is_a_problem(
    tmp_path: Path, body: str
) -> None:
    (tmp_path / "grading.py").write_text(f"def score(response, agent):\n    {body}\n")
    assert await problem_of(tmp_path, python="grading:score")


@pytest.mark.parametrize(
    ("body", "scores"),
    [
        ("return 0.4 if response['content'][0]['text'] == 'hello' else 1", [0.4, 1.0]),
        (
            "return {'score': 0.4 if len(agent.messages) < 6 else 0.8, 'feedback': 'more'}",
            [0.4, 0.8],
        ),
    ],
)
@pytest.mark.parametrize("kind", ["def", "async def"])
@pytest.mark.slow
def test_a_python_callable_scores_in_a_child_process(
    place: Place, body: str, scores: list[float | None], kind: str
) -> None:
    (place.workspace / "grading.py").write_text(
        f"{kind} score(response, agent):\n    {body}\n"
    )
    outcome = place.run(critic={"python": "grading:score"})
    assert (outcome.passed, place.scores) == (True, scores)


def score(value: float, feedback: str = "", **more: Any) -> dict[str, Any]:
    """A reply of the critic's model."""
    return {
        "account": "critic",
        "text": json.dumps({"score": value, "feedback": feedback}),
        **more,
    }


def test_a_model_has_an_account_of_its_own_and_the_judge_sees_nothing_of_it(
    place: Place,
) -> None:
    replies = (
        *WORK,
        score(
            0.2,
            "the marker opinion-4711",
            usage={"input_tokens": 100, "output_tokens": 10, "cost_usd": 0.25},
        ),
        score(0.8, usage={"input_tokens": 200, "output_tokens": 10, "cost_usd": 0.5}),
        judge(("it greets", [quote("o1", "hello")])),
    )
    seen: list[str] = []
    model = recording(place.root / "models.jsonl", *replies)
    goal = place.goal(
        *replies, critic=model, judge=model, success_criteria=["it greets"]
    )
    complete = LLM.complete

    async def spy(self: LLM, messages: Any, **more: Any) -> Any:
        seen.extend(
            str(message["content"]) for message in messages if self.account == "judge"
        )
        return await complete(self, messages, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LLM, "complete", spy)
        outcome = asyncio.run(arun(goal, place.options()))
    assert place.scores == [0.2, 0.8]
    assert [one.usage.calls if one.usage else 0 for one in place.critiques] == [1, 1]
    assert outcome.usage["critic"] == Usage(
        input_tokens=300, output_tokens=20, cost_usd=0.75, known_cost_usd=0.75, calls=2
    )
    assert outcome.models["critic"] == model
    assert seen
    assert not any("opinion-4711" in text or "[critic]" in text for text in seen)


@pytest.mark.parametrize("text", ["fine", '{"score": 2}'])
@pytest.mark.slow
def test_a_model_whose_answers_cannot_be_read_is_asked_again(
    place: Place, text: str
) -> None:
    unreadable = {"account": "critic", "text": text}
    model = recording(place.root / "models.jsonl", *WORK, unreadable, score(0.9))
    assert place.run(*WORK, unreadable, score(0.9), critic=model).passed
    assert place.scores == [0.9]


def test_a_model_that_never_answers_is_passed_over(place: Place) -> None:
    replies = (
        *WORK,
        {"account": "critic", "error": {"status": 401, "message": "no key"}},
    )
    model = recording(place.root / "models.jsonl", *replies)
    outcome = place.run(*replies, critic=model)
    assert (outcome.passed, place.scores) == (True, [None])
    assert place.critiques[0].problem


@pytest.mark.slow
def test_a_budget_counts_the_critic_and_a_spent_one_still_checks_the_round(
    place: Place,
) -> None:
    replies = (
        *WORK,
        score(0.1, "more", usage={"input_tokens": 5_000, "output_tokens": 0}),
    )
    model = recording(place.root / "models.jsonl", *replies)
    outcome = place.run(*replies, critic=model, budget={"tokens": 4_000})
    assert (outcome.passed, outcome.iterations, place.scores) == (True, 1, [0.1])
    (place.root / "late").mkdir()
    outcome = Place(place.root / "late").run(
        *replies, critic=model, budget={"tokens": 4_000}, validator="test -e b.txt"
    )
    assert outcome.stop_reason is StopReason.BUDGET_EXHAUSTED


@pytest.mark.slow
def test_the_time_limit_cuts_the_critic(place: Place) -> None:
    outcome = place.run(critic={"run": "sleep 60"}, timeout=6)
    assert (outcome.status, outcome.stop_reason) == (
        GoalStatus.CAPPED,
        StopReason.TIMEOUT,
    )
    assert "while the critic of round 1 ran" in outcome.message
    assert outcome.duration < 30


@pytest.mark.slow
def test_secrets_in_feedback_are_replaced(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAYMENT_TOKEN", "tok-8814-aabbccdd-2290")
    line = 'echo "{\\"score\\": 0.1, \\"feedback\\": \\"use $PAYMENT_TOKEN\\"}"'
    outcome = place.run(critic={"run": line})
    assert "tok-8814" not in "".join(prompts(outcome))
    assert "[redacted:PAYMENT_TOKEN]" in place.critiques[0].feedback


@pytest.mark.slow
def test_without_preserved_context_a_refinement_keeps_the_chat_of_its_round(
    place: Place,
) -> None:
    (place.workspace / "critic.py").write_text(SCRIPT)
    outcome = place.run(critic={"run": "python3 critic.py"}, preserve_context=False)
    assert (outcome.passed, place.scores) == (True, [0.4, 0.9])


def test_a_response_is_judged_as_the_refinement_left_it(place: Place) -> None:
    quoted = judge(("it greets", [quote("o2", "a friendly hello")]))
    replies = (agent("hello"), agent("a friendly hello"), quoted)
    model = recording(place.root / "models.jsonl", *replies)
    goal = {
        "judge": model,
        "success_criteria": ["it greets"],
        "deliverable": "response",
        "validator": [],
    }
    outcome = place.run(
        *replies, critic={"run": "grep -q friend && echo 1 || echo 0"}, **goal
    )
    assert (outcome.status, outcome.iterations, place.scores) == (
        GoalStatus.COMPLETE,
        1,
        [0.0, 1.0],
    )


@pytest.mark.slow
def test_an_external_agent_gets_the_feedback_in_the_same_round(place: Place) -> None:
    script = place.root / "worker.sh"
    script.write_text(
        '#!/bin/sh\nprompt=$(cat "$@")\necho "$prompt" >> prompts.txt\necho hello > a.txt\necho done\n'
    )
    script.chmod(0o755)
    outcome = place.run(
        critic={
            "run": "grep -c critic prompts.txt | grep -q 0 && echo 0.1 || echo 0.9"
        },
        agent={"use": "command", "command": [str(script)]},
        model="",
    )
    assert (outcome.status, outcome.iterations, place.scores) == (
        GoalStatus.COMPLETE,
        1,
        [0.1, 0.9],
    )
    assert "[critic]" in (place.workspace / "prompts.txt").read_text()


def test_a_goal_file_with_a_critic_is_written_and_read(
    place: Place, tmp_path: Path
) -> None:
    goal = place.goal(critic={"run": "./score.sh", "threshold": 0.5})
    path = tmp_path / "goal.toml"
    path.write_text(dump_goal(goal))
    assert load_goal(path, environ={}).critic == goal.critic
    path.write_text(
        'objective = "x"\nmodel = "a/b"\nvalidator = "true"\ncritic = "openai/gpt-5-mini"\n'
    )
    assert load_goal(path, environ={}).critic == CriticConfig(model="openai/gpt-5-mini")


@pytest.mark.parametrize(
    ("critic", "message"),
    [
        (
            {"run": "no-such-program-here --all"},
            r"\[critic\] cannot run here: no-such-program-here",
        ),
        ({"run": "if true; then"}, r"\[critic\] is not a valid command line"),
    ],
)
def test_a_critic_that_cannot_run_is_refused_before_the_start(
    place: Place, critic: dict[str, str], message: str
) -> None:
    with pytest.raises(ValidatorMissing, match=message):
        dry_run(place.goal(critic=critic), place.options())


@pytest.mark.slow
def test_a_key_and_a_model_that_do_not_exist_are_found_before_the_start(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CRITIC_KEY", raising=False)
    unkeyed = place.goal(
        critic={"model": "openai/gpt-5-mini", "api_key_env": "CRITIC_KEY"}
    )
    with pytest.raises(GoalError, match="CRITIC_KEY"):
        dry_run(unkeyed, place.options())
    found = {
        item.name: item for item in check_readiness(unkeyed, place.options()).findings
    }
    assert found["critic"].state == "bad"
    with pytest.raises(GoalError, match="no-such-provider"):
        dry_run(place.goal(critic="no-such-provider/x"), place.options())


# In the library.


def plain(response: Any, agent: Any) -> float:
    """A function that returns a number."""
    return 0.9 if "tests" in response["content"][0]["text"] else 0.1


async def asynchronous(response: Any, agent: Any) -> dict[str, Any]:
    """A coroutine function that returns a mapping."""
    await asyncio.sleep(0)
    return {
        "score": plain(response, agent),
        "feedback": f"{len(agent.messages)} messages",
    }


class Strict:
    """An object that can be called, with limits of its own."""

    threshold = 0.95
    max_refinements = 2

    def __call__(self, response: Any, agent: Any) -> Any:
        """Return an object."""
        return SimpleNamespace(score=plain(response, agent), feedback="more")


def drive(
    place: Place, critic: Any, *said: str | ScriptedRound, **more: Any
) -> tuple[GoalOutcome, list[str], Any]:
    """Run a goal with a critic of this program."""
    conversation = ScriptedConversation(*said)
    seen: list[Any] = []
    outcome = run_goal(
        conversation,
        "Write tests.",
        validators=lambda response, agent: True,
        critic=critic,
        workspace=place.workspace,
        home=place.root / "home",
        on_event=seen.append,
        **more,
    )
    return (
        outcome,
        conversation.prompts,
        [event for event in seen if isinstance(event, events.CritiqueFinished)],
    )


@pytest.mark.parametrize("critic", [plain, asynchronous, lambda *given: plain(*given)])
def test_a_callable_scores_each_turn(place: Place, critic: Callable[..., Any]) -> None:
    outcome, told, critiques = drive(place, critic, "nothing", "tests")
    assert (outcome.passed, outcome.iterations, [one.score for one in critiques]) == (
        True,
        1,
        [0.1, 0.9],
    )
    assert told[1].startswith("[critic] ")


def test_an_object_may_have_limits_of_its_own(place: Place) -> None:
    outcome, told, critiques = drive(place, Strict(), "nothing", "tests", "tests again")
    assert (outcome.passed, [one.score for one in critiques], len(told)) == (
        True,
        [0.1, 0.9, 0.9],
        3,
    )


def test_a_configuration_and_a_model_are_critics_too(place: Place) -> None:
    model = recording(place.root / "critic.jsonl", score(0.9), score(0.9))
    for critic in (model, LLM(model), CriticConfig(model=model)):
        outcome, _, critiques = drive(place, critic, "nothing")
        assert (outcome.usage["critic"].calls, [one.score for one in critiques]) == (
            1,
            [0.9],
        )


@pytest.mark.parametrize(
    ("critic", "problem"),
    [
        (lambda response, agent: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda response, agent: "good", "the answer is 'good'"),
        (lambda response, agent, more: 1, "TypeError"),
    ],
)
def test_a_callable_that_fails_is_passed_over(
    place: Place, critic: Any, problem: str
) -> None:
    outcome, _, critiques = drive(place, critic, "nothing")
    assert outcome.passed
    assert problem in critiques[0].problem


def test_a_callable_that_blocks_is_cut_by_the_time_limit(place: Place) -> None:
    async def forever(response: Any, agent: Any) -> float:
        await asyncio.sleep(3600)
        return 1.0

    outcome, _, _ = drive(place, forever, "nothing", timeout=0.5)
    assert outcome.stop_reason is StopReason.TIMEOUT


def test_an_interrupt_in_a_callable_ends_the_run(place: Place) -> None:
    def interrupt(response: Any, agent: Any) -> float:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        drive(place, interrupt, "nothing")


@pytest.mark.parametrize("critic", [7, "", ["x"]])
def test_what_is_no_critic_is_refused(place: Place, critic: Any) -> None:
    with pytest.raises(UsageError, match="is not a critic"):
        drive(place, critic, "nothing")


def test_a_limit_that_cannot_be_is_refused(place: Place) -> None:
    critic = Strict()
    critic.threshold = 3.0
    with pytest.raises(UsageError, match=r"threshold of the critic is 3\.0"):
        drive(place, critic, "nothing")


def test_a_controller_hands_the_feedback_to_the_caller(place: Place) -> None:
    controller = GoalController(
        "Write tests.",
        validators=lambda response, agent: True,
        critic=plain,
        workspace=place.workspace,
        home=place.root / "home",
    )
    chat: list[dict[str, Any]] = [{"role": "user", "content": controller.start()}]
    chat.append({"role": "assistant", "content": "nothing"})
    step = controller.on_run_finished(chat)
    assert not isinstance(step, GoalDone)
    assert step.followup.startswith("[critic] ")
    chat += [
        {"role": "user", "content": step.followup},
        {"role": "assistant", "content": "tests"},
    ]
    done = controller.on_run_finished(chat)
    assert isinstance(done, GoalDone)
    assert (done.outcome.passed, done.outcome.iterations) == (True, 1)

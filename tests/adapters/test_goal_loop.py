"""`GoalLoop` of the Strands adapter: the examples of Strands' own, and what it adds."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import pytest

from goalrunner import Goal, ValidatorSpec
from goalrunner.core.errors import UsageError
from goalrunner.core.outcome import StopReason
from tests.adapters.frameworks import strands
from tests.support.fake_provider import Answer, FakeProvider, fail, run, say
from tests.support.recordings import judge as verdict
from tests.support.recordings import quote

pytestmark = [
    pytest.mark.adapters,
    pytest.mark.filterwarnings("default"),
    pytest.mark.timeout(300),
]

Make = Callable[..., Any]


@pytest.fixture(autouse=True)
def package() -> Any:
    """Return Strands."""
    return pytest.importorskip(
        "strands", reason="SKIPPED: strands-agents is not installed"
    )


@pytest.fixture
def adapter(package: Any) -> Any:
    """Return the adapter."""
    return import_module("goalrunner.adapters.strands")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return where the runs are recorded."""
    return tmp_path / "home"


@pytest.fixture
def make(package: Any, adapter: Any, tmp_path: Path, home: Path) -> Iterator[Make]:
    """Return a function `(script, goal, **options) -> (agent, plugin, server)`."""
    servers: list[FakeProvider] = []

    def made(
        script: list[Answer], goal: Any, **options: Any
    ) -> tuple[Any, Any, FakeProvider]:
        server = FakeProvider(script, plain=True, fresh=True)
        server.start()
        servers.append(server)
        plugin = adapter.GoalLoop(goal, **{"max_attempts": 3, "home": home, **options})
        framework = strands()
        agent = framework.agent(server, tmp_path)
        agent = package.Agent(
            model=agent.model,
            tools=[agent.tool_registry.registry["shell"]],
            plugins=[plugin],
            callback_handler=None,
        )
        return agent, plugin, server

    yield made
    for server in servers:
        server.stop()


def at_most_three_words(response: Any, agent: Any) -> Any:
    """Return whether the response has at most three words."""
    assert agent.messages[-1] is response
    words = len(
        " ".join(
            block["text"] for block in response["content"] if "text" in block
        ).split()
    )
    return (
        True
        if words <= 3
        else {"passed": False, "feedback": f"Too long ({words} words). Cap at 3."}
    )


def test_a_callable_goal_is_retried_with_its_feedback(make: Make) -> None:
    agent, plugin, server = make(
        [say("one two three four"), say("one two")], at_most_three_words
    )
    assert plugin.last_result(agent) is None
    result = agent("Count.")
    assert str(result).strip() == "one two"
    found = plugin.last_result(agent)
    assert (found.passed, found.stop_reason) == (True, "satisfied")
    assert [(one.attempt, one.passed, one.feedback) for one in found.attempts] == [
        (1, False, "Too long (4 words). Cap at 3."),
        (2, True, None),
    ]
    assert [message["role"] for message in agent.messages] == [
        "user",
        "assistant",
        "user",
        "assistant",
    ]
    assert "Too long (4 words)" in json.dumps(server.requests[1].messages)


def test_a_text_goal_is_judged_by_the_agents_own_model_with_checked_citations(
    make: Make,
) -> None:
    claimed = verdict(("short", [quote("o1", "words that were never said")]))["text"]
    passed = verdict(("short", [quote("o2", "Light bends in drops.")]))["text"]
    script = [
        say("Long and winding."),
        say(claimed),
        say(claimed),
        say("Light bends in drops."),
        say(passed),
    ]
    agent, plugin, server = make(script, "At most 3 sentences, no jargon.")
    agent("Explain how rainbows form.")
    found = plugin.last_result(agent)
    assert (found.passed, len(found.attempts), server.exhausted) == (True, 2, False)
    assert found.outcome.usage["judge"].calls == 3
    assert agent.messages[0]["content"][0]["text"] == "Explain how rainbows form."


def test_equal_feedback_does_not_stall_a_loop(make: Make) -> None:
    agent, plugin, _ = make(
        [say("one two three four")] * 6, at_most_three_words, max_attempts=6
    )
    agent("Count.")
    assert plugin.last_result(agent).stop_reason == "max_attempts"
    assert len(plugin.last_result(agent).attempts) == 6


@dataclass
class ForeignOutcome:
    """A result of a validator with the two fields that count."""

    passed: bool
    feedback: str | None = None


@pytest.mark.parametrize(
    ("returned", "feedback"),
    [
        (False, None),
        ({"passed": False}, None),
        ({"passed": False, "feedback": "no"}, "no"),
        (ForeignOutcome(passed=False, feedback="no"), "no"),
        ("ValidationOutcome", "no"),
    ],
)
def test_every_result_of_a_validator_of_strands_is_understood(
    make: Make, adapter: Any, returned: Any, feedback: str | None
) -> None:
    results = iter(
        [
            adapter.ValidationOutcome(False, "no")
            if isinstance(returned, str)
            else returned,
            True,
        ]
    )
    seen: list[str | None] = []

    def template(told: str | None) -> str:
        seen.append(told)
        return "START OVER"

    def validator(response: Any, agent: Any) -> Any:
        return next(results)

    agent, plugin, _ = make(
        [say("a"), say("b")], validator, resume_prompt_template=template
    )
    agent("Go.")
    assert [one.feedback for one in plugin.last_result(agent).attempts] == [
        feedback,
        None,
    ]
    assert seen == [feedback]
    assert agent.messages[2]["content"] == [{"text": "START OVER"}]


def test_a_template_may_return_blocks_and_a_validator_may_be_async(make: Make) -> None:
    results = iter([False, True])

    async def validator(response: Any, agent: Any) -> bool:
        return next(results)

    agent, plugin, _ = make(
        [say("a"), say("b")],
        validator,
        resume_prompt_template=lambda _: [{"text": "one"}, {"text": "two"}],
    )
    agent("Go.")
    assert plugin.last_result(agent).passed
    assert agent.messages[2]["content"] == [{"text": "one"}, {"text": "two"}]


def test_without_context_a_retry_sees_the_input_and_the_feedback_alone(
    make: Make,
) -> None:
    agent, _, server = make(
        [say("one two three four"), say("five six seven eight"), say("nine")],
        at_most_three_words,
        preserve_context=False,
    )
    agent.messages.append({"role": "user", "content": [{"text": "Earlier."}]})
    agent.messages.append({"role": "assistant", "content": [{"text": "Before."}]})
    agent("Count.")
    sent = json.dumps(server.requests[-1].messages)
    assert "three four" not in sent
    assert "seven eight" not in sent
    assert sent.count("Too long") == 1
    assert "Count." in sent
    assert "Before." in sent


def test_shell_validators_run_in_the_check_environment(
    make: Make, tmp_path: Path
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "check.sh").write_text("test -e done\n")
    agent, plugin, _ = make(
        [
            say("I did it."),
            run(f"touch {folder}/done; echo exit 0 > {folder}/check.sh"),
            say("Now."),
        ],
        Goal(objective="make done", validators=[ValidatorSpec(run="sh check.sh")]),
        workspace=folder,
    )
    agent("Make done.")
    found = plugin.last_result(agent)
    assert (found.passed, len(found.attempts)) == (True, 2)
    assert found.outcome.check_environment in ("overlay", "in-place")
    assert found.outcome.differing == ("check.sh",)


def test_callables_are_labelled_and_every_run_is_recorded(
    make: Make, home: Path
) -> None:
    agent, plugin, _ = make([run("echo hello"), say("one two")], at_most_three_words)
    agent("Count.")
    outcome = plugin.last_result(agent).outcome
    assert outcome.labels == ("not isolated",)
    folder = Path(outcome.run_path)
    assert folder.parent == home / "runs"
    kept = [
        json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()
    ]
    kinds = [json.dumps(line) for line in kept]
    assert any(
        "tool_result_recorded" in kind and '"reported_by": "strands"' in kind
        for kind in kinds
    )
    assert json.loads((folder / "outcome.json").read_text())["status"] == "complete"


def test_without_records_the_attempts_are_the_same_and_nothing_is_kept(
    make: Make, home: Path
) -> None:
    agent, plugin, _ = make(
        [run("echo hello"), say("one two three four"), say("one two")],
        at_most_three_words,
        records="none",
    )
    agent("Count.")
    result = plugin.last_result(agent)
    assert (result.passed, result.stop_reason) == (True, "satisfied")
    assert [attempt.feedback for attempt in result.attempts] == [
        "Too long (4 words). Cap at 3.",
        None,
    ]
    assert (result.outcome.labels, result.outcome.run_path) == (("not isolated",), "")
    assert not home.exists()


def test_what_needs_records_is_refused_when_the_plugin_is_made(adapter: Any) -> None:
    for options in ({"records": "few"}, {"records": "none", "validators": ["true"]}):
        with pytest.raises(UsageError, match="records"):
            adapter.GoalLoop(at_most_three_words, max_attempts=3, **options)


def test_each_invocation_is_a_run_of_its_own(make: Make, home: Path) -> None:
    agent, plugin, _ = make([say("a"), say("b")], at_most_three_words)
    agent("First.")
    first = plugin.last_result(agent)
    agent("Second.")
    assert plugin.last_result(agent) is not first
    assert len(list((home / "runs").glob("*/outcome.json"))) == 2


def test_the_judge_sees_the_input_and_what_was_said_before(
    make: Make, home: Path
) -> None:
    first, second = (
        verdict(("in German", [quote("o1", words)]))["text"]
        for words in ("Ja.", "Regen.")
    )
    agent, plugin, server = make(
        [say("Ja."), say(first), say("Regen."), say(second)], "Answer in German."
    )
    agent("Answer in one word.")
    agent("What falls from clouds?")
    prompts = [
        str(request.messages)
        for request in server.requests
        if "You audit the work" in str(request.messages)
    ]
    assert plugin.last_result(agent).passed
    assert "round 0: What falls from clouds?" in prompts[-1]
    assert "round 1: Answer in one word." in prompts[-1]
    assert "Answer in one word." in prompts[0]


def test_a_failing_model_is_raised_and_recorded(make: Make) -> None:
    agent, plugin, _ = make([fail(400, "no such thing")], at_most_three_words)
    with pytest.raises(Exception, match="no such thing"):
        agent("Go.")
    found = plugin.last_result(agent)
    assert (found.passed, found.outcome.status) == (False, "failed")


def test_a_deadline_is_kept_between_attempts(make: Make) -> None:
    agent, plugin, _ = make(
        [say("one two three four", delay=1.2)],
        at_most_three_words,
        timeout=1,
        max_attempts=9,
    )
    agent("Go.")
    assert plugin.last_result(agent).stop_reason == "timeout"


def test_an_agent_has_one_goal_loop(make: Make, adapter: Any, package: Any) -> None:
    agent, plugin, _ = make([], at_most_three_words)
    other = adapter.GoalLoop(at_most_three_words, max_attempts=1, name="other")
    with pytest.raises(RuntimeError, match="a GoalLoop already"):
        package.Agent(model=agent.model, plugins=[plugin, other])


def test_one_plugin_serves_several_agents(make: Make, package: Any) -> None:
    agent, plugin, _ = make([say("a")], at_most_three_words)
    second = package.Agent(model=agent.model, plugins=[plugin], callback_handler=None)
    agent("Go.")
    assert plugin.last_result(agent).passed
    assert plugin.last_result(second) is None


def test_wrong_parameters_are_refused_and_no_limit_is_warned_about(
    adapter: Any,
) -> None:
    with pytest.raises(ValueError, match="max_attempts"):
        adapter.GoalLoop("x", max_attempts=0)
    with pytest.raises(ValueError, match="timeout"):
        adapter.GoalLoop("x", timeout=0)
    for goal in (None, "", "  "):
        with pytest.raises(ValueError, match="goal"):
            adapter.GoalLoop(goal, max_attempts=1)
    with pytest.raises(TypeError, match=r"goal must be .* not 5"):
        adapter.GoalLoop(5, max_attempts=1)
    with pytest.raises(TypeError, match="'max_attempt'; did you mean 'max_attempts'"):
        adapter.GoalLoop("x", max_attempt=3)
    with pytest.raises(TypeError, match="'workspce'; did you mean 'workspace'"):
        adapter.GoalLoop("x", max_attempts=1, workspce=".")
    with pytest.raises(TypeError, match="resume_prompt_template must be a function"):
        adapter.GoalLoop("x", max_attempts=1, resume_prompt_template="again")
    with pytest.raises(UsageError, match="the number 5 is not a judge"):
        adapter.GoalLoop("x", max_attempts=1, judge=adapter.JudgeConfig(model=5))
    with pytest.raises(UsageError, match="on_event must be a function"):
        adapter.GoalLoop("x", max_attempts=1, on_event=3)
    with pytest.warns(UserWarning, match="no max_attempts"):
        adapter.GoalLoop("x")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert adapter.GoalLoop("x", timeout=5).name == "strands:goal-loop"


def test_a_judge_has_its_own_model_and_system_prompt(make: Make, adapter: Any) -> None:
    passed = verdict(("short", [quote("o1", "Light bends.")]))["text"]
    with FakeProvider([say(passed)], plain=True, fresh=True) as second:
        config = adapter.JudgeConfig(
            model=strands().judge(second),
            system_prompt="Be strict, as a teacher of physics.",
        )
        agent, plugin, server = make([say("Light bends.")], "short", judge=config)
        agent("Explain.")
    assert plugin.last_result(agent).passed
    assert (len(server.requests), len(second.requests)) == (1, 1)
    assert "teacher of physics" in json.dumps(second.requests[0].messages)


def test_the_names_of_strands_own_plugin_are_here(adapter: Any) -> None:
    theirs: Any = pytest.importorskip("strands.vended_plugins.goal")
    ours = set(adapter.__all__)
    assert set(theirs.__all__) <= ours
    reasons = {str(reason).replace("iterations", "attempts") for reason in StopReason}
    assert set(get_args(adapter.GoalStopReason)) == reasons
    assert set(get_args(theirs.GoalStopReason)) <= reasons

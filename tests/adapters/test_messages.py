"""Agents of LangGraph, deepagents and pydantic-ai, as the page about frameworks drives them, with scripted models of these packages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import pytest

from goalrunner import Goal, GoalOutcome, arun_goal, read_events
from goalrunner.adapters.messages import MessageRecorder, openai_chat
from goalrunner.core.agent_ports import Recorder
from goalrunner.core.errors import UsageError
from goalrunner.core.events import Event, ToolResultRecorded, WaitStarted
from tests.adapters.frameworks import PAGE, page_blocks, page_class, run_shell
from tests.support.recordings import judge as verdict
from tests.support.recordings import quote

USED = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
needs_packages = pytest.mark.adapters
pytestmark = pytest.mark.filterwarnings("default")

Step = str | tuple[str, dict[str, str]] | Exception
"""A last text, a call of a tool with its arguments, or an error of the model."""


def sh(command: str) -> Step:
    return "shell", {"command": command}


def langchain_model(*steps: Step) -> Any:
    """Return LangChain's own scripted model."""
    models = pytest.importorskip("langchain_core.language_models")
    messages = import_module("langchain_core.messages")

    def played() -> Any:
        for number, step in enumerate(steps):
            if isinstance(step, Exception):
                # The model itself would end with a generator that raised.
                yield step
            elif isinstance(step, str):
                yield messages.AIMessage(step, usage_metadata=USED)
            else:
                call = {"id": f"call_{number}", "name": step[0], "args": step[1]}
                yield messages.AIMessage("", tool_calls=[call], usage_metadata=USED)

    class Scripted(models.GenericFakeChatModel):  # type: ignore[misc,name-defined]
        def bind_tools(self, tools: Any, **_: Any) -> Any:
            return self

        def _generate(self, *arguments: Any, **keywords: Any) -> Any:
            step = next(self.messages)
            if isinstance(step, Exception):
                raise step
            outputs = import_module("langchain_core.outputs")
            return outputs.ChatResult(
                generations=[outputs.ChatGeneration(message=step)]
            )

    return Scripted(messages=played())


def pydantic_model(*steps: Step) -> Any:
    """Return the scripted model of pydantic-ai."""
    models = pytest.importorskip("pydantic_ai.models.function")
    messages = import_module("pydantic_ai.messages")
    usages = import_module("pydantic_ai.usage")
    left = iter(steps)

    def play(*_: Any) -> Any:
        step = next(left)
        if isinstance(step, Exception):
            raise step
        if isinstance(step, str):
            part = messages.TextPart(step)
        else:
            part = messages.ToolCallPart(*step)
        used = usages.RequestUsage(input_tokens=10, output_tokens=5)
        return messages.ModelResponse(parts=[part], usage=used)

    return models.FunctionModel(play)


Make = Callable[..., Any]


def langgraph_agent(tools: Sequence[Any], *steps: Step) -> Any:
    agents = pytest.importorskip("langchain.agents")
    conversation = page_class("LangGraph")["LangGraphAgent"]
    return conversation(agents.create_agent(langchain_model(*steps), list(tools)))


def pydantic_agent(tools: Sequence[Any], *steps: Step) -> Any:
    package = pytest.importorskip("pydantic_ai")
    conversation = page_class("pydantic-ai")["PydanticAgent"]
    return conversation(package.Agent(pydantic_model(*steps), tools=tools))


@pytest.fixture(
    params=[langgraph_agent, pydantic_agent], ids=["langgraph", "pydantic-ai"]
)
def made(request: pytest.FixtureRequest) -> Make:
    made: Make = request.param
    return made


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "all.txt").write_text("12 passed\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shell(command: str) -> str:
    """Run a command."""
    return run_shell(command, Path.cwd())


def cites(observation: str, words: str) -> Callable[[Any], str]:
    """Return a judge that gives one citation."""
    answer = verdict(("it passes", [quote(observation, words)]))["text"]
    return lambda _: cast(str, answer)


def observations(outcome: GoalOutcome) -> list[tuple[Any, ...]]:
    return [
        (event.observation.source, event.observation.command, event.observation.facts)
        for event in read_events(outcome)
        if isinstance(event, ToolResultRecorded)
    ]


@pytest.mark.parametrize(
    ("title", "model"),
    [("LangGraph", langchain_model), ("pydantic-ai", pydantic_model)],
)
@needs_packages
def test_the_examples_of_the_page_complete_a_goal(
    title: str, model: Make, workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (workspace / "test_it.py").write_text("def test_it():\n    from work import one\n")
    names = page_class(title)
    example = page_blocks(title)[1]
    assert 'model = "openai:gpt-5-mini"' in example
    example = example.replace('model = "openai:gpt-5-mini"', "")
    example = example.replace('judge="openai/gpt-5-mini"', "judge=judge")
    names["model"] = model(sh("echo one = 1 > work.py"), sh("cat work.py"), "Done.")
    names["judge"] = cites("o3", "one = 1")
    exec(compile(example, str(PAGE), "exec"), names)
    assert capsys.readouterr().out.startswith("complete ")


@pytest.mark.parametrize("title", ["LangGraph", "pydantic-ai"])
def test_the_conversations_of_the_page_have_about_twenty_lines(title: str) -> None:
    assert len(list(filter(str.strip, page_blocks(title)[0].splitlines()))) <= 20


@needs_packages
async def test_results_are_evidence_and_usage_is_counted(
    made: Make, workspace: Path
) -> None:
    agent = made([shell], sh("touch new"), sh("cat all.txt"), "All passed.")
    outcome = await arun_goal(
        agent, "It passes.", judge=cites("o2", "12 passed"), workspace=workspace
    )
    assert outcome.passed, outcome.message
    assert observations(outcome) == [
        ("shell", "touch new", ()),
        ("shell", "cat all.txt", ()),
    ]
    used = outcome.usage["agent"]
    assert (used.calls, used.input_tokens, used.output_tokens) == (3, 30, 15)
    # Neither framework knows the price of a scripted model.
    assert used.cost_usd is None
    assert [message["role"] for message in agent.messages] == [
        "user",
        *["assistant", "tool"] * 2,
        "assistant",
    ]


@needs_packages
async def test_the_agents_text_is_no_evidence(made: Make, workspace: Path) -> None:
    agent = made([shell], sh("cat all.txt"), "Also 99 passed.")
    outcome = await arun_goal(
        agent,
        "It passes.",
        judge=cites("o1", "99 passed"),
        workspace=workspace,
        max_iterations=1,
    )
    assert outcome.status != "complete"


@needs_packages
async def test_an_error_of_a_tool_ends_the_run_with_its_text(
    made: Make, workspace: Path
) -> None:
    def boom(command: str) -> str:
        """Break."""
        raise OSError(f"no {command}")

    agent = made([boom], ("boom", {"command": "disk"}), "Done.")
    outcome = await arun_goal(
        agent, "It passes.", validators=["false"], workspace=workspace
    )
    assert (outcome.status, outcome.stop_reason) == ("failed", "agent_failed")
    assert "raised OSError: no disk" in outcome.message


class Limited(Exception):
    """The error of a provider's client."""

    status_code = 429


@needs_packages
async def test_a_rate_limit_is_waited_out(made: Make, workspace: Path) -> None:
    limited = Limited("Too many requests")
    limited.headers = {"retry-after": "0.2"}  # type: ignore[attr-defined]
    agent = made([shell], sh("touch done"), limited, "Now I did.")
    seen: list[Event] = []
    outcome = await arun_goal(
        agent,
        "Make it.",
        validators=["test -e done"],
        workspace=workspace,
        wait=60,
        on_event=seen.append,
    )
    assert outcome.passed, outcome.message
    waits = [event for event in seen if isinstance(event, WaitStarted)]
    assert [wait.reason for wait in waits] == ["429 rate limit"]
    # What the agent did before is in its chat.
    assert "tool" in [message["role"] for message in agent.messages]


@needs_packages
async def test_an_interrupt_of_a_graph_ends_the_run(workspace: Path) -> None:
    types = pytest.importorskip("langgraph.types")

    def ask(question: str) -> str:
        """Ask."""
        return str(types.interrupt(question))

    outcome = await arun_goal(
        langgraph_agent([ask], ("ask", {"question": "Now?"}), "Done."),
        Goal(objective="Be good.", deliverable="response"),
        validators=[lambda response, _: True],
    )
    assert (outcome.status, outcome.stop_reason) == ("failed", "agent_failed")
    assert "waits for an answer to its interrupt" in outcome.message


@needs_packages
async def test_a_tool_that_has_to_be_tried_again_has_failed(workspace: Path) -> None:
    package = pytest.importorskip("pydantic_ai")

    def shell(command: str) -> str:
        """Run a command."""
        raise package.ModelRetry("use another folder")

    agent = pydantic_agent([shell], sh("pytest"), "Done.")
    outcome = await arun_goal(
        agent, "Do it.", validators=["true"], workspace=workspace, max_iterations=1
    )
    assert observations(outcome)[0] == ("shell", "pytest", ("error",))


@needs_packages
async def test_the_report_of_a_sub_agent_is_a_claim(workspace: Path) -> None:
    package = pytest.importorskip("deepagents")
    conversation = page_class("LangGraph")["LangGraphAgent"]
    work = {"description": "Run the tests.", "subagent_type": "general-purpose"}
    model = langchain_model(("task", work), "12 passed, says the worker.", "Done.")
    outcome = await arun_goal(
        conversation(package.create_deep_agent(model, [shell])),
        "It passes.",
        judge=cites("o1", "12 passed"),
        workspace=workspace,
        max_iterations=1,
    )
    assert outcome.status != "complete"
    assert observations(outcome)[0][2] == ("reported by a sub-agent",)


class BatchAgent:
    """An agent that reports its whole turn at the end."""

    name = "batch"

    def __init__(self, touches: bool) -> None:
        self.touches = touches
        self.messages: list[dict[str, Any]] = []

    async def send(self, prompt: str, recorder: Recorder) -> str:
        if self.touches:
            Path("new").touch()
        function = {"name": "shell", "arguments": '{"command": "cat all.txt"}'}
        call = {"id": "a", "type": "function", "function": function}
        self.messages += [
            {"role": "user", "content": prompt},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "a", "content": "12 passed"},
            {"role": "assistant", "content": "Done."},
        ]
        record = MessageRecorder(recorder, self.name)
        await record.add(self.messages)
        # What is recorded already is not recorded again.
        await record.add(self.messages)
        return "Done."


@pytest.mark.parametrize("touches", [False, True])
async def test_results_after_the_turn_count_only_if_nothing_changed_in_the_round(
    workspace: Path, touches: bool
) -> None:
    outcome = await arun_goal(
        BatchAgent(touches),
        "It passes.",
        judge=cites("o1", "12 passed"),
        workspace=workspace,
        max_iterations=1,
    )
    assert outcome.passed is not touches
    assert observations(outcome) == [("shell", "cat all.txt", ())]


def test_another_message_is_refused_with_what_is_known() -> None:
    for message in ("text", {"content": "without a role"}, object()):
        with pytest.raises(UsageError, match="not a message of LangChain") as refused:
            openai_chat([message])
        assert "role and content" in refused.value.hint

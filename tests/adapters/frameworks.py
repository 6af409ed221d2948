"""The frameworks of the adapters, and the plain library, each with an agent that has a shell and a scripted provider."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from goalrunner import LLM, GoalOutcome, aresume, arun_goal, chat_conversation
from goalrunner.core.agent_ports import Conversation
from tests.support.fake_provider import FakeProvider

# OpenHands imports LiteLLM, which would look for prices in the network, and prints a banner.
os.environ |= {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "OPENHANDS_SUPPRESS_BANNER": "1",
    "OPENAI_API_KEY": "none",
}

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "frameworks.md"


def run_shell(command: str, folder: Path) -> str:
    """Return the output of a command in the folder, and its exit code."""
    done = subprocess.run(
        command, shell=True, cwd=folder, capture_output=True, text=True, check=False
    )
    return f"{done.stdout}{done.stderr}exit {done.returncode}"


@dataclass(frozen=True)
class Framework:
    """How an agent of a framework is made and driven."""

    name: str
    agent: Callable[[FakeProvider, Path], Any]
    judge: Callable[[FakeProvider], Any]
    drive: Callable[..., Any]
    resume: Callable[..., Any]
    conversation: Callable[[Any], Conversation]
    said: Callable[[Any], Sequence[tuple[str, str]]]
    """Role and text of the messages in the framework's own chat."""
    has_models: bool = True
    """Whether the judge is a model of the framework."""

    async def run(
        self, agent: Any, objective: Any, judge: Any = None, **options: Any
    ) -> GoalOutcome:
        """Drive the agent with the adapter's `arun_goal`."""
        outcome: GoalOutcome = await self.drive(agent, objective, judge, **options)
        return outcome


def plain() -> Framework:
    """Return the built-in agent."""

    def agent(server: FakeProvider, workspace: Path) -> Any:
        return chat_conversation(
            LLM("openai/fake", api_base=server.base_url("openai")), workspace=workspace
        )

    def judge(server: FakeProvider) -> Any:
        return LLM("openai/judge", api_base=server.base_url("openai"), account="judge")

    def said(agent: Any) -> Sequence[tuple[str, str]]:
        return [(one["role"], one["content"]) for one in agent.messages]

    return Framework(
        "", agent, judge, arun_goal, aresume, lambda agent: agent, said, False
    )


def strands() -> Framework:
    """Return Strands Agents."""
    package = _imported("strands")
    adapter = import_module("goalrunner.adapters.strands")
    models = import_module("strands.models.openai")

    def model(server: FakeProvider) -> Any:
        address = {
            "base_url": server.base_url("openai"),
            "api_key": "none",
            "max_retries": 0,
        }
        return models.OpenAIModel(client_args=address, model_id="fake")

    def agent(server: FakeProvider, workspace: Path) -> Any:
        @package.tool  # type: ignore[untyped-decorator]
        def shell(command: str) -> str:
            """Run a command.

            Args:
                command: The command line.
            """
            return run_shell(command, workspace)

        return package.Agent(model=model(server), tools=[shell], callback_handler=None)

    def said(agent: Any) -> Sequence[tuple[str, str]]:
        return [
            (message["role"], block["text"])
            for message in agent.messages
            for block in message["content"]
            if "text" in block
        ]

    return Framework(
        "strands",
        agent,
        model,
        adapter.arun_goal,
        adapter.aresume,
        adapter.StrandsConversation,
        said,
    )


def openhands() -> Framework:
    """Return the OpenHands SDK."""
    sdk = _imported("openhands.sdk")
    adapter = import_module("goalrunner.adapters.openhands")
    tool = import_module("tests.adapters.openhands_tool")

    def model(server: FakeProvider, usage_id: str = "judge") -> Any:
        return sdk.LLM(
            model="openai/fake",
            base_url=server.base_url("openai"),
            api_key="none",
            usage_id=usage_id,
            num_retries=0,
        )

    def agent(server: FakeProvider, workspace: Path) -> Any:
        made = sdk.Agent(llm=model(server, "agent"), tools=[sdk.Tool(name=tool.NAME)])
        return sdk.Conversation(made, workspace=str(workspace), visualizer=None)

    def said(agent: Any) -> Sequence[tuple[str, str]]:
        return [
            (one["role"], one["content"]) for one in adapter.chat_of(agent.state.events)
        ]

    return Framework(
        "openhands",
        agent,
        model,
        adapter.arun_goal,
        adapter.aresume,
        adapter.OpenHandsConversation,
        said,
    )


def page_blocks(title: str) -> list[str]:
    """Return the examples in Python of a section of the page about frameworks."""
    sections = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)
    (section,) = [text for text in sections if text.startswith(title)]
    return re.findall(r"^```python\n(.*?)^```", section, re.MULTILINE | re.DOTALL)


def page_class(title: str) -> dict[str, Any]:
    """Return the names that the first example of a section defines."""
    names: dict[str, Any] = {"__name__": "agent_of_a_user"}
    exec(compile(page_blocks(title)[0], str(PAGE), "exec"), names)
    return names


def resumable(title: str, name: str, chat: str) -> Any:
    """Return the class of a section with the methods of "More methods"."""
    block = page_blocks("More methods")[0]
    names = page_class(title)
    block = block.replace("langchain_chat", chat).replace("LangGraphAgent", name)
    exec(compile(block, str(PAGE), "exec"), names)
    return names["ResumableAgent"]


def langgraph() -> Framework:
    """Return LangGraph, with the conversation of the documentation."""
    agents = _imported("langchain.agents")
    models = _imported("langchain_openai")
    conversation = resumable("LangGraph", "LangGraphAgent", "langchain_chat")

    def agent(server: FakeProvider, workspace: Path) -> Any:
        def shell(command: str) -> str:
            """Run a command."""
            return run_shell(command, workspace)

        model = models.ChatOpenAI(
            model="fake",
            base_url=server.base_url("openai"),
            api_key="none",
            max_retries=0,
        )
        return conversation(agents.create_agent(model, [shell]))

    return replace(plain(), name="langgraph", agent=agent)


def pydantic_ai() -> Framework:
    """Return pydantic-ai, with the conversation of the documentation."""
    package = _imported("pydantic_ai")
    models = _imported("pydantic_ai.models.openai")
    providers = _imported("pydantic_ai.providers.openai")
    clients = _imported("openai")
    conversation = resumable("pydantic-ai", "PydanticAgent", "pydantic_chat")

    def agent(server: FakeProvider, workspace: Path) -> Any:
        def shell(command: str) -> str:
            """Run a command."""
            return run_shell(command, workspace)

        client = clients.AsyncOpenAI(
            base_url=server.base_url("openai"), api_key="none", max_retries=0
        )
        model = models.OpenAIChatModel(
            "fake", provider=providers.OpenAIProvider(openai_client=client)
        )
        return conversation(package.Agent(model, tools=[shell]))

    return replace(plain(), name="pydantic-ai", agent=agent)


def _imported(name: str) -> Any:
    return pytest.importorskip(name, reason=f"SKIPPED: {name} is not installed")


FRAMEWORKS = {
    "plain": plain,
    "strands": strands,
    "openhands": openhands,
    "langgraph": langgraph,
    "pydantic-ai": pydantic_ai,
}

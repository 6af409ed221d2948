"""A scripted agent of Strands with a GoalLoop, which may be Strands' own or ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any


@dataclass
class Scene:
    """An agent with a GoalLoop and a scripted model."""

    agent: Any
    loop: Any
    model: Any

    def ask(self, prompt: Any = "Go.", **options: Any) -> Any:
        """Call the agent; return its text, or the name of the error."""
        try:
            return str(self.agent(prompt, **options)).strip()
        except (Exception, KeyboardInterrupt, SystemExit) as error:
            return f"{type(error).__name__}: {error}"

    @property
    def result(self) -> Any:
        """The fields of the last result."""
        result = self.loop.last_result(self.agent)
        if result is None:
            return None
        attempts = [
            (one.attempt, bool(one.passed), one.feedback) for one in result.attempts
        ]
        return result.passed, result.stop_reason, attempts

    @property
    def chat(self) -> list[tuple[str, list[Any]]]:
        """The chat of the agent, without the ids that Strands draws.

        The texts of retries are replaced, because the templates differ.
        """
        return [
            (message["role"], [_shown(block) for block in message["content"]])
            for message in self.agent.messages
        ]


def _shown(block: Any) -> Any:
    text = block.get("text", "")
    if "Your previous attempt" in text or "does not meet the goal yet" in text:
        return "(the built-in retry)"
    return block


@dataclass
class Stage:
    """What a story gets: one of the two modules, and a folder."""

    goal: Any
    folder: Path

    def scene(
        self,
        answers: Any = ("a",),
        goal: Any = None,
        verdicts: Any = (),
        agent: dict[str, Any] | None = None,
        **options: Any,
    ) -> Scene:
        """Make an agent. Without `goal`, the second attempt passes."""
        strands, scripted = import_module("strands"), doubles()
        if goal is None:
            goal = passes_at(2)
        model = scripted.ScriptedModel(list(answers), list(verdicts))
        loop = self.goal.GoalLoop(goal, **{"max_attempts": 3, **options})
        made = strands.Agent(
            model=model, plugins=[loop], callback_handler=None, **(agent or {})
        )
        return Scene(made, loop, model)


def doubles() -> Any:
    """Return the scripted model, which can be imported only with Strands."""
    return import_module("tests.adapters.strands_model")


def passes_at(number: int) -> Callable[[Any, Any], bool]:
    """Return a validator that passes at its call of that number."""
    calls: list[Any] = []

    def validator(response: Any, agent: Any) -> bool:
        calls.append(response)
        return len(calls) >= number

    return validator


def asking() -> dict[str, Any]:
    """Return the options of an agent with a tool that needs a person."""

    def delete(path: str, tool_context: Any) -> str:
        """Delete a file.

        Args:
            path: The file.
        """
        return str(tool_context.interrupt("permission", reason=path))

    tool = import_module("strands").tool(context=True)
    return {"tools": [tool(delete)]}

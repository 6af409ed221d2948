"""The examples of three documents run nearly as they are there; the models are scripted."""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from goalrunner import ToolResult, load_goal, run_goal
from tests.support.fake_provider import Answer, FakeProvider, calls, say
from tests.support.recordings import judge, quote

_BLOCK = re.compile(r"^## (\w+): .*?\n\n```\w+\n(.*?)^```", re.MULTILINE | re.DOTALL)
EXAMPLES: dict[str, str] = dict(
    _BLOCK.findall(Path(__file__).with_name("examples.txt").read_text())
)
"""The code of each example by its name."""


def runs(name: str, **names: Any) -> dict[str, Any]:
    """Run an example with these names; return all names that it has afterwards."""
    exec(compile(EXAMPLES[name], f"examples.txt:{name}", "exec"), names)
    return names


class Strands:
    """Strands, with a scripted server behind each model."""

    def __init__(self, package: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.package = package
        self.servers: list[FakeProvider] = []
        self._patch = monkeypatch

    def script(self, *answers: str | Answer) -> None:
        """Let all models give these answers, in turn."""
        script = [
            say(answer) if isinstance(answer, str) else answer for answer in answers
        ]
        server = FakeProvider(script, plain=True, fresh=True)
        server.start()
        self.servers.append(server)
        made = import_module("strands.models.openai").OpenAIModel

        def model(**_: Any) -> Any:
            address = {
                "base_url": server.base_url("openai"),
                "api_key": "none",
                "max_retries": 0,
            }
            return made(client_args=address, model_id="fake")

        for module in ("strands.agent.agent", "strands.models.bedrock"):
            self._patch.setattr(import_module(module), "BedrockModel", model)

    def agent(self, plugin: Any) -> Any:
        """Return an agent with the plugin of an example."""
        return self.package.Agent(plugins=[plugin], callback_handler=None)


@pytest.fixture
def strands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Strands]:
    package = pytest.importorskip(
        "strands", reason="SKIPPED: strands-agents is not installed"
    )
    monkeypatch.chdir(tmp_path)
    found = Strands(package, monkeypatch)
    yield found
    for server in found.servers:
        server.stop()


@pytest.mark.adapters
@pytest.mark.filterwarnings("default")
class TestGoalLoop:
    """The examples of Strands' GoalLoop."""

    def test_rainbow(
        self, strands: Strands, capsys: pytest.CaptureFixture[str]
    ) -> None:
        claimed = judge(("short", []), missing="It has jargon.")["text"]
        passed = judge(("short", [quote("o2", "Light bends in drops.")]))["text"]
        strands.script(
            "Refraction and dispersion.", claimed, "Light bends in drops.", passed
        )
        runs("rainbow")
        shown = capsys.readouterr().out
        assert "GoalResult(passed=True, stop_reason='satisfied', attempts=[" in shown

    def test_word_count(self, strands: Strands) -> None:
        strands.script("word " * 51, "word " * 50)
        plugin = runs("word_count")["plugin"]
        agent = strands.agent(plugin)
        agent("Count.")
        result = plugin.last_result(agent)
        assert [attempt.feedback for attempt in result.attempts] == [
            "Too long (51 words). Cap at 50.",
            None,
        ]

    def test_tests_pass_and_stateless(
        self, strands: Strands, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        program = tmp_path / "bin" / "pytest"
        program.parent.mkdir()
        program.write_text(
            f"#!/bin/sh\ncd {tmp_path} && echo ran >> runs && test $(wc -l < runs) -gt 1\n"
        )
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
        strands.script("done", "done again")
        names = runs("tests_pass")
        for plugin in (
            names["plugin"],
            runs("stateless", **{**names, "GoalLoop": names["GoalLoop"]})["plugin"],
        ):
            (tmp_path / "runs").unlink(missing_ok=True)
            strands.script("done", "done again")
            agent = strands.agent(plugin)
            agent("Fix it.")
            result = plugin.last_result(agent)
            assert [
                (attempt.passed, attempt.feedback) for attempt in result.attempts
            ] == [
                (False, "pytest exited 1.\n"),
                (True, None),
            ]
            assert len(agent.messages) == (3 if plugin is not names["plugin"] else 4)

    def test_inspecting(
        self, strands: Strands, capsys: pytest.CaptureFixture[str]
    ) -> None:
        strands.script(*["word " * 60] * 5)
        plugin = runs("word_count")["plugin"]
        agent = strands.agent(plugin)
        agent("Count.")
        capsys.readouterr()
        runs("inspecting", plugin=plugin, agent=agent)
        lines = capsys.readouterr().out.splitlines()
        assert lines[:3] == [
            "Stopped after 5 attempts",
            "Reason: max_attempts",
            "  #1: Too long (60 words). Cap at 50.",
        ]

    def test_judge_model(self, strands: Strands) -> None:
        strands.script(
            "As A and B write.",
            judge(("two sources", [quote("o1", "As A and B write.")]))["text"],
        )
        plugin = runs("judge_model")["plugin"]
        agent = strands.agent(plugin)
        agent("Why?")
        assert plugin.last_result(agent).passed

    def test_start_over(self, strands: Strands) -> None:
        refused = judge(("short", []), missing="It is long.")["text"]
        strands.script("a", refused, "b", judge(("short", [quote("o2", "b")]))["text"])
        loop = import_module("goalrunner.adapters.strands").GoalLoop
        plugin = runs("start_over", GoalLoop=loop)["plugin"]
        agent = strands.agent(plugin)
        agent("Write.")
        said = agent.messages[2]["content"][0]["text"]
        assert said.startswith(
            "Validation failed:\nIt is long.\n\nDo NOT edit your previous response."
        )

    def test_custom_judge(self, strands: Strands) -> None:
        def judged(feedback: str | None) -> Answer:
            outcome = {"passed": feedback is None, "feedback": feedback}
            return calls(("JudgeOutcome", outcome))

        plugin = runs("custom_judge")["plugin"]
        strands.script("long and winding", judged("Be shorter."), "short", judged(None))
        agent = strands.agent(plugin)
        agent("Write.")
        result = plugin.last_result(agent)
        assert [(attempt.passed, attempt.feedback) for attempt in result.attempts] == [
            (False, "Be shorter."),
            (True, None),
        ]


class Refunds:
    """An agent that looks an order up."""

    messages: tuple[Any, ...] = ()

    async def send(self, prompt: str, recorder: Any) -> str:
        recorder.message({"role": "user", "content": prompt})
        await recorder.tool_result(
            ToolResult(
                "c1", "shell", "order O-104", ("exit 0",), b"order O-104: delivered"
            )
        )
        recorder.message({"role": "assistant", "content": "delivered"})
        return "delivered"


def approved(response: Any) -> bool:
    return bool(response["content"][0]["text"] == "delivered")


def test_refund(tmp_path: Path) -> None:
    path = tmp_path / "goal.toml"
    path.write_text(EXAMPLES["refund"])
    goal = load_goal(path)
    assert (goal.risk_class, len(goal.success_criteria)) == ("high", 4)
    goal = goal.model_copy(
        update={
            "judge": goal.judge.model_copy(update={"model": ""}),
            "risk_class": "medium",
        }
    )
    outcome = run_goal(
        Refunds(), goal, validators=[approved], judge=None, max_iterations=1
    )
    assert outcome.status == "complete"


def test_record_and_events(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = run_goal(Refunds(), "Resolve order O-104.", validators=[approved])
    found = runs("record", run=outcome)
    assert found["goal"]["description"] == "Resolve order O-104."
    assert found["goal"]["status"] == "completed"
    memory = found["working_memory"]
    assert (
        memory["stopReason"],
        memory["toolResultRefs"],
        memory["openQuestions"],
    ) == ("success", ("c1",), ())
    assert memory["budgetState"].keys() >= {
        "iteration_count",
        "token_estimate",
        "cost_cents",
        "deadline_at",
    }
    runs("events", run=outcome)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Resolve order O-104."
    assert "c1 o1" in lines
    assert lines[-1] == "satisfied"


def test_there_are_eleven_examples() -> None:
    assert len(EXAMPLES) == 11


def test_importing_the_library_takes_less_than_100_ms_and_loads_no_large_package(
    tmp_path: Path,
) -> None:
    code = (
        "import sys, time; began = time.process_time(); import goalrunner; took = time.process_time() - began\n"
        "print(took); print(*(name for name in ('litellm', 'rich', 'typer', 'pydantic') if name in sys.modules))"
    )
    fastest = 1.0
    for _ in range(5):
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            check=True,
        )
        took, loaded = done.stdout.split("\n")[:2]
        assert loaded == ""
        fastest = min(fastest, float(took))
    assert fastest < 0.1


STRANDS_EXAMPLES = tuple(EXAMPLES)[:8]
DOCUMENTS = Path(os.environ.get("GOAL_DOCUMENTS_DIR") or "absent")


@pytest.mark.skipif(
    not DOCUMENTS.is_dir(),
    reason="GOAL_DOCUMENTS_DIR names no folder with the texts of the documents",
)
def test_the_examples_of_strands_keep_their_lines() -> None:
    """Prints how many lines are those of the document, imports and comments apart."""
    texts = (
        html.unescape(path.read_text(encoding="utf-8"))
        for path in DOCUMENTS.glob("*.txt")
    )
    whole = "".join("".join(text.split()) for text in texts)
    kept = every = 0
    for name in STRANDS_EXAMPLES:
        lines = [
            "".join(line.split())
            for line in EXAMPLES[name].splitlines()
            if line.strip()
        ]
        lines = [line for line in lines if not line.startswith(("import", "from", "#"))]
        found = sum(line in whole for line in lines)
        print(f"{name}: {found} of {len(lines)} lines unchanged")
        kept, every = kept + found, every + len(lines)
    print(f"in all: {kept} of {every} lines unchanged")
    assert kept >= 0.85 * every

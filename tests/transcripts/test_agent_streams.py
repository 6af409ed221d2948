"""What an agent prints is the same in a run and in a saved file: one parser reads both."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from goalrunner.agents.external_agents import GROUP
from goalrunner.agents.output_reader import Reader
from goalrunner.agents.turn import CommandTurn
from goalrunner.core.actions import shown_command
from goalrunner.core.goal import Goal
from goalrunner.core.observation import (
    FORGEABLE,
    OF_SUBAGENT,
    Claim,
    Observation,
    trail_with,
)
from goalrunner.core.verdict import Citation
from goalrunner.judge.citations import Evidence
from goalrunner.judge.prompt_builder import audit_request
from goalrunner.transcripts import read_transcript
from tests.support.agents import MemoryRecorder
from tests.transcripts.sessions import STORIES

RECORDED = Path(__file__).parents[1] / "agents" / "command" / "samples"
"""Output of the real programs."""
ROUNDS = [
    *RECORDED.glob("*_round.jsonl"),
    *RECORDED.glob("*_resume.jsonl"),
    *STORIES.glob("*-stream.jsonl"),
]
# OpenHands and Cursor have readers of their own; lines of two samples lack their session.
OTHERS = ("openhands", "cursor", "claude_197", "claude_290")
BY_PARSER = [path for path in ROUNDS if not path.name.startswith(OTHERS)]
CLAUDE = STORIES / "claude-stream.jsonl"
SHELLS = ("Bash", "bash", "command_execution", "run_shell_command")


async def live(agent: str, path: Path, folder: Path) -> MemoryRecorder:
    """Return what a run records of the output of an agent."""
    recorder = MemoryRecorder(folder)
    turn = CommandTurn(agent, recorder, [])
    reader = Reader(agent)
    for event in [*reader.feed(path.read_bytes()), *reader.feed(b"", final=True)]:
        await turn.add(event)
    await turn.end()
    return recorder


@pytest.mark.parametrize("path", BY_PARSER, ids=lambda path: path.stem)
async def test_live_and_saved_output_have_equal_results(
    path: Path, tmp_path: Path
) -> None:
    agent = path.stem.replace("-", "_").partition("_")[0]
    recorder = await live(agent, path, tmp_path)
    trail = read_transcript(path)
    assert (trail.format, trail.partial) == (f"{agent}-stream", "")
    observed = [item for item in trail.items if isinstance(item, Observation)]
    saved = []
    for item in observed:
        facts = [fact for fact in item.facts if not fact.startswith(FORGEABLE)]
        saved.append((item.source, facts, trail.read(item)))
    recorded = []
    for result, output in zip(recorder.results, recorder.outputs, strict=True):
        if OF_SUBAGENT not in result.facts:
            recorded.append((result.tool, list(result.facts), output.decode()))
    assert saved == recorded
    messages = [message["content"] for message in recorder.messages]
    said = [trail.read(item) for item in trail.items if isinstance(item, Claim)]
    assert [text for text in said if text in messages] == messages
    commands = {shown_command(result.command) for result in recorder.results}
    assert {item.command for item in observed if item.source in SHELLS} <= commands


async def test_results_of_sub_agents_are_no_evidence_in_a_run(tmp_path: Path) -> None:
    recorder = await live("claude", CLAUDE, tmp_path)
    items = []
    for number, result in enumerate(recorder.results, 1):
        output = recorder.outputs[number - 1].decode()
        observation = Observation(
            id=f"o{number}", source=result.tool, facts=result.facts, round=1
        )
        items.append((observation, output))
    reports = [item.id for item, _ in items if OF_SUBAGENT in item.facts]
    texts = [output for item, output in items if item.id in reports]
    assert texts == [
        "43 passed in 0.08s (elsewhere)",
        "The other agent saw that 43 passed",
    ]
    evidence = Evidence(audit_request(Goal(objective="x"), trail_with(items)))
    for identifier, text in zip(reports, texts, strict=True):
        checked = evidence.check(Citation(observation=identifier, quote=text))
        assert checked.objection == (
            f"{identifier} is reported by a sub-agent, which is a claim"
        )
    assert [message["content"] for message in recorder.messages][-1] == (
        "All 43 tests passed."
    )


@pytest.mark.parametrize("agent", ["claude", "codex", "gemini", "qwen"])
def test_output_that_ends_before_the_end_of_a_turn_is_partial(
    agent: str, tmp_path: Path
) -> None:
    path = tmp_path / "output.jsonl"
    lines = (STORIES / f"{agent}-stream.jsonl").read_text().splitlines()
    path.write_text("\n".join(lines) + "\n")
    assert read_transcript(path).partial == ""
    path.write_text("\n".join(lines[:-1]) + "\n")
    trail = read_transcript(path)
    assert trail.partial == "the output ends before the end of a turn"


def test_an_array_of_messages_is_read_like_lines(tmp_path: Path) -> None:
    lines = CLAUDE.read_text()
    array = tmp_path / "execution.json"
    array.write_text(json.dumps([json.loads(line) for line in lines.splitlines()]))
    from_array = read_transcript(array)
    from_lines = read_transcript(CLAUDE)
    assert from_array.items == from_lines.items


def test_the_document_of_a_turn_has_its_answer_and_the_number_of_its_calls(
    tmp_path: Path,
) -> None:
    document = {
        "session_id": "s",
        "response": "All tests pass.",
        "stats": {
            "models": {},
            "tools": {
                "totalCalls": 2,
                "byName": {"run_shell_command": {"count": 2, "success": 2}},
            },
        },
    }
    path = tmp_path / "output.json"
    path.write_text(json.dumps(document, indent=2))
    trail = read_transcript(path)
    assert trail.format == "gemini-stream"
    assert [trail.read(item) for item in trail.items] == ["All tests pass."]
    assert all(isinstance(item, Claim) for item in trail.items)
    assert trail.warnings == (
        "2 calls, 0 results read: the transcript may not contain them",
    )


def test_the_last_result_alone_is_a_claim(tmp_path: Path) -> None:
    result = [line for line in CLAUDE.read_text().splitlines() if '"num_turns"' in line]
    path = tmp_path / "output.json"
    path.write_text(json.dumps(json.loads(result[-1]), indent=2))
    trail = read_transcript(path)
    assert trail.format == "claude-stream"
    (item,) = trail.items
    assert isinstance(item, Claim)


PARSER = """
from goalrunner.agents.parser import AgentParser, CallFinished, Text

class Mine(AgentParser):
    @classmethod
    def prints(cls, line):
        return "mine" in line

    def events(self, line):
        match line["mine"]:
            case "ran":
                yield CallFinished("", line["out"], 0, tool="sh", command="ls")
            case text:
                yield Text(text)
"""


def test_the_output_of_a_registered_agent_is_read_by_its_parser(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "packages"
    info = folder / "mine-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\nmine = mine_parser:Mine\n")
    (folder / "mine_parser.py").write_text(PARSER)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "mine_parser", raising=False)
    path = tmp_path / "output"
    path.write_text('{"mine": "ran", "out": "a.py"}\n{"mine": "There is a file."}\n')
    trail = read_transcript(path)
    assert trail.format == "mine-stream"
    assert [trail.read(item) for item in trail.items] == ["a.py", "There is a file."]
    (observation, _) = trail.items
    assert isinstance(observation, Observation)
    assert (observation.reported_by, observation.facts) == ("mine", ("exit 0",))

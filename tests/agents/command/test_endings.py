"""How turns end: what passes by itself, what no later turn can change, and claims that the round checks."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from goalrunner.agents.command import CommandConversation
from goalrunner.agents.external_agents import ExternalAgent, parser_class
from goalrunner.agents.process_end import NO_END
from goalrunner.core.agent_ports import RoundReply
from goalrunner.core.agent_preset import Preset
from goalrunner.core.errors import AgentError, AgentNotSignedIn, AgentRefused
from goalrunner.core.outcome import Usage
from goalrunner.system.launcher import ProcessLauncher
from tests.support.agents import MemoryRecorder

pytestmark = pytest.mark.timeout(60)

SAMPLES = Path(__file__).parent / "samples"


async def played(
    folder: Path, agent: str, sample: str, recorder: MemoryRecorder, *, code: int = 1
) -> RoundReply:
    """Let a double of an agent print a sample and exit with a code."""
    path = SAMPLES / f"{agent}_{sample}.jsonl" if sample else os.devnull
    body = f"import sys; sys.stdin.read(); sys.stdout.write(open({str(path)!r}).read()); sys.exit({code})"
    preset = parser_class(agent).preset.model_copy(
        update={"argv": (sys.executable, "-c", body), "resume": ()}
    )
    double = ExternalAgent(agent, preset, folder, {**os.environ, "HOME": str(folder)})
    return await CommandConversation(double, ProcessLauncher()).send("do it", recorder)


@pytest.mark.parametrize(
    ("agent", "sample", "code", "kind", "reason"),
    [
        ("claude", "limit", 1, "limit", "usage limit, five hours"),
        ("claude", "rate_limit", 1, "limit", "429 rate limit"),
        ("claude", "overloaded", 1, "overload", "529 overloaded"),
        ("gemini", "", 173, "limit", "usage limit"),
        ("gemini", "", 247, "overload", "provider overloaded"),
    ],
)
async def test_an_outage_is_raised_with_what_was_used(
    tmp_path: Path,
    recorder: MemoryRecorder,
    agent: str,
    sample: str,
    code: int,
    kind: str,
    reason: str,
) -> None:
    with pytest.raises(AgentError) as caught:
        await played(tmp_path, agent, sample, recorder, code=code)
    outage = caught.value.outage
    assert outage is not None
    assert (outage.kind, outage.reason, outage.was_retried) == (kind, reason, False)
    assert (outage.resets_at is not None) == (sample == "limit")
    used = sum((usage for _, usage in recorder.usages), Usage())
    assert used.tokens == (15 if sample == "overloaded" else 0)
    assert not used.uncounted_calls


@pytest.mark.parametrize(
    ("agent", "sample", "code", "kind"),
    [
        ("claude", "no_credit", 1, AgentRefused),
        ("claude", "no_model", 1, AgentRefused),
        ("claude", "wrong_key", 1, AgentNotSignedIn),
        ("claude", "no_key", 1, AgentNotSignedIn),
        ("gemini", "wrong_key", 145, AgentNotSignedIn),
        ("gemini", "", 41, AgentNotSignedIn),
        ("opencode", "wrong_key", 1, AgentNotSignedIn),
        ("qwen", "wrong_key", 0, AgentNotSignedIn),
    ],
)
async def test_what_no_later_turn_can_change_is_raised(
    tmp_path: Path,
    recorder: MemoryRecorder,
    agent: str,
    sample: str,
    code: int,
    kind: type[AgentError],
) -> None:
    with pytest.raises(AgentError) as caught:
        await played(tmp_path, agent, sample, recorder, code=code)
    assert type(caught.value) is kind
    assert caught.value.outage is None
    assert caught.value.hint


@pytest.mark.parametrize(
    ("agent", "sample", "code", "ending"),
    [
        ("claude", "max_turns", 1, "error_max_turns"),
        ("gemini", "", 53, "the agent reached its limit of turns (exit 53)"),
        ("qwen", "", 53, "the agent reached its limit of turns (exit 53)"),
        ("gemini", "round", 3, "exit 3"),
    ],
)
async def test_another_end_is_a_claim(
    tmp_path: Path,
    recorder: MemoryRecorder,
    agent: str,
    sample: str,
    code: int,
    ending: str,
) -> None:
    reply = await played(tmp_path, agent, sample, recorder, code=code)
    assert (reply.reason, reply.ending) == ("interrupted", ending)


@pytest.mark.parametrize("agent", ["claude", "codex", "gemini", "qwen"])
async def test_output_without_a_result_is_the_output_of_a_cut_turn(
    tmp_path: Path, recorder: MemoryRecorder, agent: str
) -> None:
    """Claude Code exits 0 after SIGINT, without a result."""
    lines = (
        (SAMPLES / f"{agent}_round.jsonl").read_text().splitlines(keepends=True)[:-1]
    )
    (tmp_path / "cut").write_text("".join(lines))
    preset = parser_class(agent).preset.model_copy(
        update={"argv": ("cat", str(tmp_path / "cut")), "resume": ()}
    )
    double = ExternalAgent(agent, preset, tmp_path, dict(os.environ))
    reply = await CommandConversation(double, ProcessLauncher()).send("do it", recorder)
    assert (reply.text, reply.reason, reply.ending) == ("Done.", "interrupted", NO_END)


async def test_an_exit_code_of_a_users_preset_has_its_meaning(
    tmp_path: Path, recorder: MemoryRecorder
) -> None:
    preset = Preset.model_validate(
        {"argv": ["exit 75"], "exit_codes": {"75": "limit", "76": "turns"}}
    )
    with pytest.raises(AgentError) as caught:
        await CommandConversation(
            ExternalAgent("mine", preset, tmp_path, {}), ProcessLauncher()
        ).send("x", recorder)
    assert caught.value.outage is not None
    assert caught.value.outage.kind == "limit"

"""Programs that do not speak ACP: the error names the reason and what to type."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from goalrunner.agents import acp_process
from goalrunner.core.errors import AgentError, AgentNotInstalled, AgentNotSignedIn
from tests.support.acp_bench import AcpBench

HTML = "<!DOCTYPE html>\n<html>Welcome</html>"
USAGE = "echo 'usage: tool [-h]' >&2; exit 2"


async def failure(bench: AcpBench, *command: str, **settings: Any) -> AgentError:
    """What is said of a command that was taken for an agent."""
    with pytest.raises(AgentError) as failed:
        await bench.conversation(command, **settings).send("do it", bench.recorder())
    return failed.value


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("true",), "it ended (exit 0) without an answer"),
        (("cat",), "it repeats its input, as cat does"),
        (
            ("sh", "-c", USAGE),
            "it ended (exit 2) without an answer; it printed:\nusage: tool [-h]",
        ),
        (("echo", HTML), f"it ended (exit 0) without an answer; it printed:\n{HTML}"),
    ],
)
async def test_a_program_that_is_no_agent_is_recognised(
    tmp_path: Path, command: tuple[str, ...], said: str
) -> None:
    failed = await failure(AcpBench(tmp_path, []), *command)
    assert failed.message.startswith(f"the agent double does not speak ACP: {said}")
    assert 'command = ["my-agent", "--acp"]' in failed.hint
    assert 'use = "command"' in failed.hint


@pytest.mark.slow
async def test_one_that_never_answers_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acp_process, "PATIENCE", 0.5)
    failed = await failure(
        AcpBench(tmp_path, []), "sh", "-c", "echo ready; exec sleep 60"
    )
    told = "the agent double does not speak ACP: it did not answer within 0.5 s; it printed:\nready"
    assert failed.message == told


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            {"error": {"code": -32601, "message": "Method not found"}},
            "Method not found",
        ),
        (
            {"protocolVersion": "2025-06-18", "serverInfo": {}},
            "it speaks version 2025-06-18 of the protocol, not 1",
        ),
        ({}, "it speaks version None of the protocol, not 1"),
    ],
)
async def test_a_server_of_another_protocol_is_no_agent(
    tmp_path: Path, answer: dict[str, Any], said: str
) -> None:
    bench = AcpBench(tmp_path, [], answers={"initialize": answer})
    failed = await failure(bench, *bench.command)
    assert "the agent double does not speak ACP" in failed.message
    assert said in failed.message


async def test_its_program_is_named_and_its_command_line_is_offered(
    tmp_path: Path,
) -> None:
    bench = AcpBench(tmp_path, [])
    bench.preset = bench.preset.model_copy(
        update={"acp": ("/usr/bin/true", "--acp"), "argv": ("true",)}
    )
    failed = await failure(bench, "true")
    assert failed.message.startswith("the agent double (true) does not speak ACP")
    assert failed.hint == 'write protocol = "command", or update it: pip install double'


async def test_what_is_known_to_help_comes_first(tmp_path: Path) -> None:
    bench = AcpBench(tmp_path, [])
    bench.preset = bench.preset.model_copy(
        update={"hints": {"no quota": "run double quota"}}
    )
    for said, kind, hint in (
        ("Invalid API key", AgentNotSignedIn, "run double login"),
        ("there is No Quota", AgentError, "run double quota"),
        ("sh: 1: node: not found", AgentNotInstalled, "pip install double"),
    ):
        code = 127 if kind is AgentNotInstalled else 1
        failed = await failure(
            bench, "sh", "-c", f"echo {json.dumps(said)} >&2; exit {code}"
        )
        assert (type(failed), failed.hint, said in failed.message) == (kind, hint, True)

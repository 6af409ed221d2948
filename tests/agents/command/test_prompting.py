"""The prompt reaches an agent whole, once, and never as part of a command."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalrunner.agents.chat_history import LONGEST_HISTORY, with_history
from goalrunner.agents.external_agents import ExternalAgent
from goalrunner.agents.invocation import Invocation, invocation, program_of
from goalrunner.core.agent_preset import Preset

HOSTILE = 'it\'s "$(touch broken)" `id` ; {session} \\ \n*'


def scratch(folder: Path) -> Callable[[str], Path]:
    numbers = itertools.count()
    return lambda suffix: folder / f"{next(numbers)}{suffix}"


Said = tuple[str, str, ExternalAgent]


def said(prompt: str, folder: Path, session: str = "", **more: Any) -> Said:
    return prompt, session, ExternalAgent("x", Preset(), folder, {}, **more)


def begun(
    template: Sequence[str], told: Said, scratch: Callable[[str], Path]
) -> Invocation:
    prompt, session, agent = told
    return invocation(template, agent, scratch, prompt, session)


def test_without_a_placeholder_the_prompt_is_given_on_stdin(tmp_path: Path) -> None:
    started = begun(
        ("x", "-s", "{session}", "{workspace}"),
        said("p", tmp_path, session="s"),
        scratch(tmp_path),
    )
    assert (started.argv, started.stdin) == (("x", "-s", "s", str(tmp_path)), b"p")


def test_words_for_model_and_arguments_stand_where_they_are_named(
    tmp_path: Path,
) -> None:
    words = said("p", tmp_path, model=("-m", "big"), args=("-a", "b c"))
    assert begun(("x", "{args}", "{model}", "y"), words, scratch(tmp_path)).argv == (
        "x",
        "-a",
        "b c",
        "-m",
        "big",
        "y",
    )
    assert begun(
        ("x", "{model}", "y"), said("p", tmp_path), scratch(tmp_path)
    ).argv == ("x", "y")


def test_a_prompt_is_a_word_whatever_is_in_it(tmp_path: Path) -> None:
    started = begun(("x", "--p={prompt}"), said(HOSTILE, tmp_path), scratch(tmp_path))
    assert (started.argv, started.stdin) == (("x", f"--p={HOSTILE}"), None)


@pytest.mark.parametrize(
    "line", ["printf %s {prompt} > out", 'printf %s "{prompt}" > out']
)
def test_no_prompt_becomes_a_command_of_the_shell(tmp_path: Path, line: str) -> None:
    started = begun((line,), said(HOSTILE, tmp_path), scratch(tmp_path))
    subprocess.run(started.argv, cwd=tmp_path, check=True)
    assert not (tmp_path / "broken").exists()
    if '"' not in line:
        assert (tmp_path / "out").read_text() == HOSTILE


def test_a_prompt_file_is_for_the_owner_alone(tmp_path: Path) -> None:
    started = begun(("x", "{prompt_file}"), said("p\0q", tmp_path), scratch(tmp_path))
    assert started.prompt_file is not None
    assert started.argv == ("x", str(started.prompt_file))
    assert (
        started.prompt_file.read_bytes(),
        started.prompt_file.stat().st_mode & 0o777,
    ) == (b"p\0q", 0o600)


@pytest.mark.parametrize("template", [("x", "{prompt}"), ("x {prompt}",)])
def test_a_prompt_that_no_command_line_takes_is_read_from_a_file(
    tmp_path: Path, template: tuple[str, ...]
) -> None:
    started = begun(template, said("ä" * 70_000, tmp_path), scratch(tmp_path))
    assert started.prompt_file is not None
    assert started.prompt_file.read_text() == "ä" * 70_000
    assert any(str(started.prompt_file) in word for word in started.argv)
    assert max(map(len, started.argv)) < 1_000


@given(st.text())
def test_any_prompt_can_be_started_with(
    tmp_path_factory: pytest.TempPathFactory, prompt: str
) -> None:
    folder = tmp_path_factory.mktemp("p")
    for template in (("x", "{prompt}"), ("x {prompt}",), ("x",)):
        started = begun(template, said(prompt, folder), scratch(folder))
        assert not any("\0" in word for word in started.argv)
        assert all(word.encode() is not None for word in started.argv)


@pytest.mark.parametrize(
    ("template", "program"),
    [
        (("claude", "-p"), "claude"),
        (("./agent.sh",), "./agent.sh"),
        (("agent --fast",), "agent"),
        (("exec ./agent.sh --fast",), "./agent.sh"),
        (("command agent",), "agent"),
        (("command -p agent",), ""),
        ((". ./agent.sh",), ""),
        (("n=1; agent",), ""),
        (("cat | agent",), ""),
        ((), ""),
    ],
)
def test_the_program_is_known_where_no_shell_is_needed_to_know_it(
    template: tuple[str, ...], program: str
) -> None:
    assert program_of(template) == program


def test_without_a_history_a_prompt_is_itself() -> None:
    assert with_history([], "do it") == "do it"


def test_a_long_history_keeps_its_first_and_its_newest() -> None:
    messages = [{"role": "user", "content": "the objective"}]
    messages += [
        {"role": "assistant", "content": f"answer {number} " + "x" * 20_000}
        for number in range(40)
    ]
    told = with_history(messages, "now")
    assert len(told) < LONGEST_HISTORY + 1_000
    assert "> the objective" in told
    assert "> answer 39 " in told
    assert "more left out here" in told
    assert "characters left out" in told
    assert told.endswith("\n\nnow")

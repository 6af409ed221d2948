"""How soon the command answers, and how soon a run asks its first question. Whole processes of the installed command."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from tests.bench.measuring import (
    GOAL,
    Pairs,
    hold,
    pairs,
    process_seconds,
    remark,
    run_process,
)
from tests.bench.rounds import CAPPED, TEXT, VERDICT, write_goal, write_replies
from tests.support.model_server import Answer, ModelServer, Seen, say
from tests.support.told_run import summary

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

PLAIN_IMPORT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "true",
    "LITELLM_MODE": "PRODUCTION",
}
"""LiteLLM's fastest import that needs no tricks: its own price map, no look for a .env."""


@pytest.fixture
def one_run(own_home: Path) -> str:
    """The id of a run that is over."""
    values = summary()
    folder = own_home / "runs" / str(values["run_id"])
    folder.mkdir(parents=True)
    (folder / "summary.json").write_text(json.dumps(values))
    return str(values["run_id"])


@pytest.mark.parametrize("command", ["goal --help", "goal list", "goal status RUN"])
def test_a_plain_command_answers_about_as_soon_as_typer_is_imported(
    command: str, one_run: str
) -> None:
    arguments = [one_run if word == "RUN" else word for word in command.split()[1:]]
    typer = [sys.executable, "-c", "import typer"]
    measured = pairs(
        lambda: process_seconds([GOAL, *arguments]), lambda: process_seconds(typer), 15
    )
    hold(f"{command} / import typer", measured)


def test_a_run_asks_its_model_before_a_bare_import_of_litellm_has_ended(
    tmp_path: Path,
) -> None:
    imported: list[float] = []

    def plain_import() -> float:
        began = time.monotonic()
        code = "import litellm, time; print(time.monotonic())"
        ended = run_process(
            [sys.executable, "-c", code], env=PLAIN_IMPORT, cwd=tmp_path
        )
        imported.append(float(ended.stdout) - began)
        return time.monotonic() - began

    measured = pairs(lambda: _first_request(tmp_path), plain_import, 7)
    remark("import litellm, without the end of its process", imported[1:])
    hold("goal run to its first request / import litellm", measured)


def test_a_run_without_litellm_has_its_first_reply_within_half_a_second(
    tmp_path: Path,
) -> None:
    goal = write_goal(
        tmp_path / "workspace",
        2,
        agent="scripted/replies.jsonl",
        judge="scripted/replies.jsonl",
    )
    write_replies(goal.with_name("replies.jsonl"), 2)
    times = [
        _recorded_after(goal, tmp_path / f"home-{number}") for number in range(16)
    ][1:]
    remark("its first round began after", [began for began, _ in times])
    hold(
        "goal run to its first scripted reply / 0.5 s",
        Pairs([replied for _, replied in times], [0.5] * len(times)),
    )


def test_a_run_without_a_judge_calls_its_agent_soon(tmp_path: Path) -> None:
    workspace, home = tmp_path / "workspace", {"GOAL_HOME": str(tmp_path / "home")}
    workspace.mkdir()
    goal, called = workspace / "goal.toml", tmp_path / "called"
    agent = f"date +%s.%N > {called}"
    goal.write_text(
        'objective = "x"\nvalidator = "false"\nmax_iterations = 1\n'
        f'agent = {{use = "command", command = "{agent}"}}\n'
    )

    def first_call() -> float:
        began = time.time()
        run_process([GOAL, "run", str(goal)], codes=(CAPPED,), env=home, cwd=workspace)
        return float(called.read_text()) - began

    def promised() -> float:
        typer = process_seconds([sys.executable, "-c", "import typer"])
        return 1.5 * typer + process_seconds(["sh", "-c", agent])

    hold(
        "goal run to its first agent call / 1.5 x import typer and the agent's start",
        pairs(first_call, promised, 7),
    )


def test_uvx_shows_the_demo_sooner_than_an_environment_of_its_own(
    tmp_path: Path,
) -> None:
    uvx = shutil.which("uvx")
    if uvx is None:
        pytest.skip("uvx is not installed: pip install uv")
    home, root = {"GOAL_HOME": str(tmp_path / "home")}, Path(__file__).parents[2]
    cold = {
        **home,
        "UV_CACHE_DIR": str(tmp_path / "uv"),
        "UV_TOOL_DIR": str(tmp_path / "tools"),
    }
    bare = f"python3 -m venv {tmp_path / 'venv'} && {tmp_path / 'venv/bin/pip'} install -q --no-cache-dir {root}"
    by_uvx = process_seconds([uvx, "--from", str(root), "goal", "demo"], env=cold)
    by_pip = process_seconds(
        ["bash", "-ec", f"{bare} && {tmp_path / 'venv/bin/goal'} demo"], env=home
    )
    hold(
        "uvx --from . goal demo / python -m venv, pip install . and goal demo",
        Pairs([by_uvx], [by_pip]),
    )
    remark(
        "the same, again",
        [process_seconds([uvx, "--from", str(root), "goal", "demo"], env=cold)],
    )


def _first_request(folder: Path) -> float:
    """Seconds from the start of `goal run` to the first request that the server has read whole."""
    asked: list[float] = []
    with ModelServer(_noting(asked)) as server:
        goal = write_goal(
            folder,
            1,
            agent="openai/agent",
            judge="openai/judge",
            api_base=server.base_url,
        )
        began = time.monotonic()
        run_process(
            [GOAL, "run", str(goal)],
            codes=(CAPPED,),
            env={"OPENAI_API_KEY": "none"},
            cwd=folder,
        )
    return asked[0] - began


def _noting(asked: list[float]) -> Callable[[Seen], Answer]:
    def answer(seen: Seen) -> Answer:
        asked.append(time.monotonic())
        return say(VERDICT if seen.model == "judge" else TEXT)

    return answer


def _recorded_after(goal: Path, home: Path) -> tuple[float, float]:
    """Seconds from the start of `goal run` to its events "round_started" and the first "usage_recorded", by their times."""
    began = time.time()
    run_process(
        [GOAL, "run", str(goal)],
        codes=(CAPPED,),
        env={"GOAL_HOME": str(home)},
        cwd=goal.parent,
    )
    (log,) = home.glob("runs/*/events.jsonl")
    times: dict[str, float] = {}
    for line in log.read_text().splitlines():
        record = json.loads(line)
        times.setdefault(
            record["event"]["type"], datetime.fromisoformat(record["at"]).timestamp()
        )
    return times["round_started"] - began, times["usage_recorded"] - began

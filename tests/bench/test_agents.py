"""What an external agent's round costs beyond the agent itself, and whether its output is ever held in memory."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import pytest

from goalrunner.agents.json_lines import LONGEST_LINE
from tests.bench.measuring import GOAL, Pairs, hold, remark, run_process
from tests.bench.test_memory import PEAK
from tests.conformance.doubles import ACP, COMMAND, DOUBLE, OWN, Double
from tests.conformance.moves import Floods, Runs, Says
from tests.conformance.place import Place

pytestmark = [pytest.mark.bench, pytest.mark.timeout(2000)]

SKIPPED, MEASURED, REPETITIONS = 2, 20, 5
VALIDATOR = "test -e done"
CAPPED = (1,)
GIGABYTE = 1_000_000_000
LITTLE = 1_000_000


@pytest.mark.parametrize("agent", [COMMAND, ACP], ids=lambda agent: agent.protocol)
def test_a_round_costs_little_beyond_the_agent_itself(
    agent: Double, tmp_path: Path
) -> None:
    """By hand: the agent's command with the prompt on stdin and its output in a file, then the validator.

    Of an agent that speaks ACP, one process a run, a round by hand is the command that it runs.
    """
    place = Place(tmp_path, agent)
    place.prepare((Runs("true"), Says("I am done.")))
    goal = place.goal_file(
        max_iterations=SKIPPED + MEASURED, stall_rounds=SKIPPED + MEASURED + 1
    )
    beyond: list[float] = []
    rounds: list[float] = []
    by_hand: list[float] = []
    for _ in range(1 + REPETITIONS):
        (place.root / "user" / OWN / "rounds").unlink(missing_ok=True)
        run_process(
            [GOAL, "run", str(goal)],
            codes=CAPPED,
            env=place.environ,
            cwd=place.workspace,
        )
        rounds.append(1000 * _seconds_a_round(place.home))
        by_hand.append(1000 * _by_hand(place, agent))
        beyond.append(rounds[-1] - by_hand[-1])
    remark("a round", rounds[1:], "ms")
    remark("the same by hand", by_hand[1:], "ms")
    name = f"a round of an agent driven by {'its command' if agent is COMMAND else 'ACP'}, beyond the agent / 100 ms"
    hold(name, Pairs(beyond[1:], [100.0] * REPETITIONS), "ms")


@pytest.mark.parametrize("agent", [COMMAND, ACP], ids=lambda agent: agent.protocol)
def test_memory_is_flat_in_what_an_agent_prints(agent: Double, tmp_path: Path) -> None:
    """Each once: a gigabyte takes its time, and a peak of memory hangs on nothing that happens beside it."""

    def peak(where: str, size: int) -> float:
        place = Place(tmp_path / f"{where}-{size}", agent)
        place.prepare((Floods(where, size), Runs("touch done"), Says("I am done.")))  # type: ignore[arg-type]
        goal = place.goal_file(max_iterations=1)
        command = [sys.executable, "-c", PEAK, GOAL, "run", str(goal)]
        ended = run_process(
            command, env=place.environ, cwd=place.workspace, timeout=900
        )
        return float(ended.stdout) / 2**20

    little = peak("stdout", LITTLE)
    much: dict[str, float] = {}
    for where in ("stdout", "stderr", "line"):
        began = time.monotonic()
        much[where] = peak(where, GIGABYTE)
        remark(f"a run with 1 GB on {where}", [time.monotonic() - began])
        remark(
            f"    its peak of memory, as a ratio to one with 1 MB ({little:.0f} MiB)",
            [much[where] / little],
            "",
        )
    for where in ("stdout", "stderr"):
        name = f"peak memory with 1 GB of an agent's {where} / with 1 MB"
        hold(name, Pairs([much[where]], [little]), "MiB")
    longest = LONGEST_LINE / 2**20
    name = "peak memory with 1 GB in one line of an agent's, beyond 1 MB / the longest line that is read"
    hold(name, Pairs([much["line"] - little], [longest]), "MiB")


def _seconds_a_round(home: Path) -> float:
    """From the last validators of the rounds that are skipped to those of the last one, by the log's own clock."""
    newest = max(
        home.glob("runs/*/events.jsonl"), key=lambda path: path.stat().st_mtime
    )
    records = [json.loads(line) for line in newest.read_text().splitlines()]
    ends = [
        record["elapsed"]
        for record in records
        if record["event"]["type"] == "validators_finished"
    ]
    assert len(ends) == SKIPPED + MEASURED
    return float(ends[-1] - ends[SKIPPED - 1]) / MEASURED


def _by_hand(place: Place, agent: Double) -> float:
    """The median of as many rounds, in seconds."""
    words = (
        [sys.executable, str(DOUBLE), "stream"]
        if agent is COMMAND
        else ["sh", "-c", "true"]
    )
    seconds = []
    for number in range(MEASURED):
        with (place.root / f"{number}.out").open("wb") as output:
            began = time.perf_counter()
            subprocess.run(
                words,
                input=b"Make the file done.",
                stdout=output,
                env=place.environ,
                cwd=place.workspace,
                check=True,
            )
            subprocess.run(["sh", "-c", VALIDATOR], cwd=place.workspace, check=False)
            seconds.append(time.perf_counter() - began)
    return median(seconds)

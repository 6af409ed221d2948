"""Whole batches of command agents and scripted models."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from goalrunner.batches.batch_folder import BatchFolder
from goalrunner.batches.history import EntryEnded, EntryStarted
from goalrunner.checking.overlay import probe
from goalrunner.core.run_summary import RunSummary
from goalrunner.records.run_folder import RunFolder
from goalrunner.records.run_summaries import read_summary
from tests.support import forking
from tests.support.command_line import GOAL, Ended, environment
from tests.support.external import program
from tests.support.workspaces import git, make_repository

pytestmark = pytest.mark.slow

NAME = "night"


def goal_file(number: int, script: str = "touch out{}", more: str = "") -> str:
    return f"""\
objective = "out{number} exists"
validator = "test -e out{number}"
{more}
[agent]
use = "command"
command = ["sh", "-c", "{script.replace("{}", str(number))}"]
"""


class Batches:
    """A workspace, the home of its runs, and the batch in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / "home"
        self.workspace = root / "ws"
        self.batch = BatchFolder(self.home / "batches" / NAME)

    def write(self, files: dict[str, str]) -> None:
        make_repository(self.workspace, files)
        if why := probe(self.workspace, self.root / "scratch"):
            pytest.skip(f"no overlay works here: {why}")

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*GOAL, "batch", *arguments],
            cwd=self.workspace,
            env=environment(GOAL_HOME=str(self.home)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *arguments: str) -> Ended:
        env = {"GOAL_HOME": str(self.home)}
        ended = forking.goal("batch", *arguments, cwd=self.workspace, env=env)
        return Ended(ended.code, ended.out + ended.err, "")

    def submit(self, *arguments: str) -> Ended:
        return self.run(".", "--name", NAME, *arguments)

    def outcomes(self) -> dict[str, str]:
        """The last outcome of each entry by its name; its status without one."""
        return {
            entry.entry.name: entry.outcome or entry.status
            for entry in self.batch.state().entries.values()
        }

    def summaries(self) -> list[RunSummary]:
        runs = (self.home / "runs").iterdir()
        return [RunSummary.read(read_summary(RunFolder(path))) for path in runs]

    def ends(self) -> Counter[str]:
        """How often each entry has ended for good."""
        return Counter(
            event.key
            for event in self.batch.events()
            if isinstance(event, EntryEnded) and not event.stopped
        )

    def await_events(self, process: subprocess.Popen[str], number: int) -> None:
        """Wait for so many events of the batch, or for the end of the process."""
        until = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < until:
            if self.batch.log.exists() and len(list(self.batch.events())) >= number:
                return
            time.sleep(0.02)

    def leftovers(self) -> list[str]:
        """The processes that work for this home."""
        lines = []
        for process in psutil.process_iter(["cmdline"]):
            line = " ".join(process.info["cmdline"] or ())
            if str(self.home) in line:
                lines.append(line)
        return lines


@pytest.fixture
def batches(tmp_path: Path) -> Batches:
    return Batches(tmp_path)


def wait_for(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_goals_wait_for_others_fail_are_retried_and_are_skipped(
    batches: Batches,
) -> None:
    once = f"[ -e {batches.root}/second ] || {{ touch {batches.root}/second; exit 3; }}"
    batches.write(
        {
            "first.toml": goal_file(1),
            "second.toml": goal_file(2, f"{once}; touch out{{}}"),
            "third.toml": goal_file(3, more='after = ["first.toml", "second.toml"]'),
            "capped.toml": goal_file(4, "true", "max_iterations = 1"),
            "skipped.toml": goal_file(5, more='after = ["capped.toml"]'),
            "missing.toml": goal_file(6).replace('"sh"', '"no-such-program"'),
        }
    )
    ran = batches.submit("--jobs", "2", "--retries", "1", "--at-least", "3")
    assert ran.code == 0, ran.out
    assert batches.outcomes() == {
        "capped": "capped",
        "first": "complete",
        "missing": "failed",
        "second": "complete",
        "skipped": "skipped",
        "third": "complete",
    }
    entries = {
        entry.entry.name: entry for entry in batches.batch.state().entries.values()
    }
    assert {name: entry.starts for name, entry in entries.items()} == {
        "capped": 1,
        "first": 1,
        "missing": 2,
        "second": 2,
        "skipped": 0,
        "third": 1,
    }
    assert "no-such-program" in entries["missing"].message
    assert git(batches.workspace, "status", "--porcelain") == ""
    assert batches.leftovers() == []


@pytest.mark.timeout(300)
def test_a_batch_that_is_killed_at_random_moments_ends_each_goal_once(
    batches: Batches,
) -> None:
    batches.write(
        {
            f"g{number}.toml": goal_file(number, "sleep 0.1; touch out{}")
            for number in range(14)
        }
    )
    chance = random.Random(32)
    process = batches.start(".", "--name", NAME, "--jobs", "4")
    for _ in range(8):
        seen = len(list(batches.batch.events())) if batches.batch.log.exists() else 0
        batches.await_events(process, seen + chance.randint(1, 4))
        workers = (
            psutil.Process(process.pid).children() if process.poll() is None else []
        )
        if workers and chance.random() < 0.5:
            chance.choice(workers).kill()
        else:
            process.kill()
            process.communicate(timeout=30)
            process = batches.start("--resume", NAME, "--jobs", "4")
    output, _ = process.communicate(timeout=110)
    assert process.returncode == 0, output
    assert batches.batch.state().complete == 14
    assert set(batches.ends().values()) == {1}
    started = {
        (event.key, event.run_id)
        for event in batches.batch.events()
        if isinstance(event, EntryStarted)
    }
    assert len(started) == 14
    assert sorted(run_id for _, run_id in started) == sorted(
        summary.run_id for summary in batches.summaries()
    )
    assert {summary.status for summary in batches.summaries()} == {"complete"}
    wait_for(lambda: batches.leftovers() == [])


def test_ctrl_c_stops_the_runs_and_resume_goes_on_with_them(batches: Batches) -> None:
    marker = batches.root / "begun"
    script = f"[ -e {marker} ] || {{ touch {marker}; sleep 60; }}; touch out{{}}"
    batches.write(
        {
            "a.toml": goal_file(1, script),
            "b.toml": goal_file(2, more='after = ["a.toml"]'),
        }
    )
    process = batches.start(".", "--name", NAME)
    wait_for(marker.exists)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 130, output
    assert batches.outcomes() == {"a": "cancelled", "b": "pending"}
    assert f"goal batch --resume {NAME}" in output
    assert batches.run("--resume").code == 0
    assert batches.ends() == {"1": 1, "2": 1}
    assert len(batches.summaries()) == 2


def test_the_runs_of_a_batch_share_a_budget(batches: Batches) -> None:
    call = {"name": "shell", "arguments": {"command": "true"}}
    usage = {"input_tokens": 90, "output_tokens": 10, "cost_usd": 0.1, "calls": 1}
    replies = [{"tool_calls": [call], "usage": usage} for _ in range(4)]
    done = {"name": "shell", "arguments": {"command": "touch out"}}
    replies += [
        {"tool_calls": [done], "usage": usage},
        {"text": "done", "usage": usage},
    ]
    text = "".join(json.dumps(reply) + "\n" for reply in replies)
    goals = {
        f"g{number}.toml": 'objective = "out exists"\nvalidator = "test -e out"\n'
        'model = "scripted/replies.jsonl"\n'
        for number in range(4)
    }
    batches.write({**goals, "replies.jsonl": text})
    ran = batches.submit("--jobs", "3", "--cost", "1")
    assert ran.code == 1, ran.out
    assert "the cost limit of $1.00 is reached" in ran.out
    spent = sum(summary.known_cost_usd for summary in batches.summaries())
    # One call of each run that was at work may come in addition.
    assert 1.0 <= round(spent, 6) <= 1.3
    resumed = batches.run("--resume", "--cost", "inf")
    assert resumed.code == 0, resumed.out
    spent = sum(summary.known_cost_usd for summary in batches.summaries())
    assert 2.4 <= round(spent, 6) <= 2.7
    assert set(batches.ends().values()) == {1}


_LIMITED = """
state = Path(os.environ["STATE"])
now = time.time()
with (state / "calls").open("a") as file:
    file.write(f"{now}\\n")
if not (state / "limit").exists():
    (state / "limit").write_text("")
    info = {"status": "rejected", "resetsAt": int(now + 4), "rateLimitType": "five_hour"}
    say("system", subtype="init", session_id="s", claude_code_version="2.1.332")
    say("rate_limit_event", rate_limit_info=info)
    say("result", subtype="success", is_error=True, api_error_status=429, result="You've hit your 5-hour limit",
        total_cost_usd=0, model_usage_since_last_result={})
    sys.exit(1)
Path("out").write_text("")
say("system", subtype="init", session_id="s", claude_code_version="2.1.332")
say("result", subtype="success", is_error=False, result="It is done.", total_cost_usd=0.5,
    model_usage_since_last_result={"opus": {"inputTokens": 10, "outputTokens": 5, "costUSD": 0.5}})
"""


def test_a_limit_of_an_account_pauses_all_its_runs_at_once(batches: Batches) -> None:
    argv = json.dumps(list(program(batches.root, _LIMITED)))
    preset = f"""
agent = "limited"
[agents.limited]
argv = {argv}
stream = "claude"
reports = {{ tokens = "turn", cost_usd = "turn" }}
env = {{ STATE = "{batches.root}" }}
"""
    first = 'objective = "out exists"\nvalidator = "test -e out"\n' + preset
    # Their agents begin only when the first run has reached the limit.
    pause = f"until ls {batches.batch.pauses}/*.json; do sleep 0.05; done"
    validator = f'objective = "out exists"\nvalidator = "{pause}; test -e out"\n'
    others = {f"g{number}.toml": validator + preset for number in (1, 2, 3)}
    batches.write({"g0.toml": first, **others, "z.toml": goal_file(9)})
    ran = batches.submit("--jobs", "5")
    assert ran.code == 0, ran.out
    calls = [float(line) for line in (batches.root / "calls").read_text().split()]
    assert len(calls) == 5
    limited, *after = sorted(calls)
    assert min(after) >= int(limited + 4)
    waited = {
        summary.run_id: summary.waited > 0
        for summary in batches.summaries()
        if summary.objective == "out exists"
    }
    assert all(waited.values())
    # A run of another account does not wait.
    (other,) = (one for one in batches.summaries() if one.objective != "out exists")
    assert other.waited == 0


def test_a_run_whose_process_is_killed_again_and_again_fails(batches: Batches) -> None:
    killing = goal_file(1, "kill -9 $PPID")
    batches.write({"a.toml": killing, "b.toml": goal_file(2)})
    ran = batches.submit()
    assert ran.code == 1, ran.out
    assert batches.outcomes() == {"a": "failed", "b": "complete"}
    first = batches.batch.state().entries["1"]
    assert (first.starts, first.message) == (4, "its process was ended by SIGKILL")
    assert batches.ends() == {"1": 1, "2": 1}


def test_a_batch_of_two_repositories_is_frozen_and_can_be_cancelled(
    batches: Batches,
) -> None:
    go = batches.root / "go"
    script = f"touch {batches.root}/begun{{}}; until [ -e {go} ]; do sleep 0.1; done"
    script += "; touch out{}"
    other = make_repository(batches.root / "other", {"b.toml": goal_file(2, script)})
    batches.write({"a.toml": goal_file(1, script), "c.toml": goal_file(3)})
    second = str(other / "b.toml")
    process = batches.start("a.toml", second, "c.toml", "--name", NAME, "--jobs", "2")
    wait_for((batches.root / "begun1").exists)
    wait_for((batches.root / "begun2").exists)
    # It was read at the submission.
    (batches.workspace / "c.toml").write_text("broken")
    (batches.workspace / "a.toml").unlink()
    go.touch()
    output, _ = process.communicate(timeout=100)
    assert process.returncode == 0, output
    assert {Path(one.workspace).name for one in batches.summaries()} == {"ws", "other"}
    go.unlink()
    (batches.root / "begun2").unlink()
    name = "day"
    batches.batch = BatchFolder(batches.home / "batches" / name)
    process = batches.start(second, second.replace("b.toml", "d.toml"), "--name", name)
    output, _ = process.communicate(timeout=100)
    assert process.returncode == 2
    assert "d.toml  no such file; did you mean" in output
    (other / "d.toml").write_text(goal_file(4, more='after = ["b.toml"]'))
    process = batches.start(str(other), "--name", name)
    wait_for((batches.root / "begun2").exists)
    cancel = subprocess.run(
        [*GOAL, "cancel", name, "--yes"],
        env=environment(GOAL_HOME=str(batches.home)),
        cwd=other,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert cancel.returncode == 0, cancel.stderr
    output, _ = process.communicate(timeout=100)
    assert process.returncode == 1, output
    assert batches.outcomes() == {"b": "cancelled", "d": "pending"}
    resumed = batches.run("--resume", name)
    assert resumed.code == 2
    assert "was cancelled, which is final" in resumed.out
    assert batches.leftovers() == []


def test_goals_that_fail_at_once_end_once_each(batches: Batches) -> None:
    files = {f"g{number}.toml": goal_file(number) for number in range(12)}
    batches.write(files)
    # No copy can be made: the runs lie in the folder that is to be copied.
    batches.home = batches.workspace / "home"
    batches.batch = BatchFolder(batches.home / "batches" / NAME)
    ran = batches.submit("--jobs", "6")
    assert ran.code == 1, ran.out
    assert set(batches.outcomes().values()) == {"failed"}
    assert set(batches.ends().values()) == {1}
    assert len(batches.ends()) == 12
    state = batches.batch.state()
    messages = {one.message.partition(" lie ")[2] for one in state.entries.values()}
    assert len(messages) == 1, messages
    assert "which is to be copied" in messages.pop()
    stopped = batches.run("--resume", "--max-failures", "3", "--jobs", "1")
    assert stopped.code == 1
    assert "3 goals ended without success" in stopped.out


def test_a_full_disk_ends_the_batch_and_a_resume_goes_on(batches: Batches) -> None:
    disk = batches.root / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", disk],
        check=False,
        capture_output=True,
        text=True,
    )
    if mounted.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
    try:
        batches.home = disk / "home"
        batches.batch = BatchFolder(batches.home / "batches" / NAME)
        fill = f"head -c 10000000 /dev/zero > {disk}/ballast; touch out{{}}"
        batches.write(
            {
                "a.toml": goal_file(1, f"{fill} 2>/dev/null"),
                "b.toml": goal_file(2, more='after = ["a.toml"]'),
            }
        )
        ran = batches.submit()
        assert ran.code in (1, 4), ran.out
        assert "o space left" in ran.out
        assert batches.leftovers() == []
        (disk / "ballast").unlink()
        # The agent would fill the disk again.
        (disk / "ballast").mkdir()
        resumed = batches.run("--resume")
        assert resumed.code == 0, resumed.out
        assert batches.batch.state().complete == 2
    finally:
        subprocess.run(["umount", "-l", disk], check=True)

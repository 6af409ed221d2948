"""Draws docs/terminal.svg and docs/terminal-agent.svg from real runs of the quickstart: `python -m tests.picture`.

In the second one the agent is a program that weakens the tests. docs/batch.svg is the live table of a made-up batch.
"""

from __future__ import annotations

import asyncio
import html
import io
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from goalrunner.app.run_options import RunOptions
from goalrunner.app.session import arun
from goalrunner.batches.live_table import LiveTable
from goalrunner.batches.rows import batch_rows
from goalrunner.goalfile.loading import load_goal
from goalrunner.reports.live import LiveProgress
from goalrunner.snapshots.repositories import describe
from tests.support import batch_moments
from tests.support.workspaces import make_repository

ROOT = Path(__file__).parents[1]
QUICKSTART = ROOT / "src" / "goalrunner" / "quickstart"
NAMES = ("terminal", "terminal-agent", "batch")
COLUMNS = 112
AGENT_GOAL = """
objective = "Make the tests pass."
validator = "python3 -m unittest"
agent = "coder"

[agents.coder]
argv = ["coder"]
resume = ["coder", "--resume", "{session}"]
stream = "claude"
reports = { tokens = "turn", cost_usd = "session" }
"""
AGENT = f'''#!{sys.executable}
"""Weakens the tests instead of correcting the code. It prints what Claude Code prints."""
import json, subprocess, sys
from pathlib import Path

def say(kind, **fields):
    print(json.dumps({{"type": kind, "session_id": "s1", **fields}}), flush=True)

def call(number, name, result, **given):
    used = {{"type": "tool_use", "id": str(number), "name": name, "input": given}}
    say("assistant", message={{"id": f"m{{number}}", "content": [used]}})
    done = {{"type": "tool_result", "tool_use_id": str(number), "content": result}}
    say("user", message={{"role": "user", "content": [done]}})

def shell(number, command):
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    call(number, "Bash", done.stdout + done.stderr, command=command)

def edit(number, path, old, new):
    file = Path(path)
    file.write_text(file.read_text().replace(old, new))
    call(number, "Edit", f"The file {{path}} has been updated.", file_path=path, old_string=old, new_string=new)

say("system", subtype="init")
shell(1, "python3 -m unittest")
edit(2, "test_slugs.py", '"Hello, World!"', '"Hello World"')
edit(3, "test_slugs.py", '"Hello   World"', '"Hello World"')
shell(4, "python3 -m unittest")
said = "All tests pass."
say("assistant", message={{"id": "m9", "content": [{{"type": "text", "text": said}}]}})
used = {{"input_tokens": 18200, "output_tokens": 900}}
say("result", subtype="success", is_error=False, result=said, usage=used, total_cost_usd=0.05)
'''


class Picture(LiveProgress):
    """The lines of a terminal, kept instead of shown."""

    def __init__(self) -> None:
        super().__init__(io.StringIO(), lambda path: describe(Path(path)))
        self._console = Console(
            file=io.StringIO(),
            record=True,
            force_terminal=True,
            width=COLUMNS,
            highlight=False,
        )

    def svg(self) -> str:
        """What was printed."""
        return self._console.export_svg(title="goal run goal.toml")


def _begin(workspace: Path, programs: Path) -> None:
    """Make the workspace a repository whose goal names the agent, and put the agent into the folder of programs."""
    (workspace / "replies.jsonl").unlink()
    make_repository(workspace, {"goal.toml": AGENT_GOAL})
    programs.mkdir()
    (programs / "coder").write_text(AGENT)
    (programs / "coder").chmod(0o755)


def draw(name: str) -> str:
    """Return what a terminal shows, as SVG: a run of the quickstart in a folder of its own, or a batch."""
    return draw_batch() if name == "batch" else _draw_run(name)


def draw_batch() -> str:
    """Return the live table of a batch at one moment."""
    moment = batch_moments.at_work()
    table = LiveTable(io.StringIO(), environ={})
    table._console = Console(
        file=io.StringIO(),
        record=True,
        force_terminal=True,
        width=COLUMNS,
        height=30,
        highlight=False,
        markup=False,
    )
    table._console.print(table.region(moment, batch_rows(moment)))
    return table._console.export_svg(title="goal batch goals/ --cost 20 --until 18:00")


def _draw_run(name: str) -> str:
    picture = Picture()
    before, home, path = Path.cwd(), os.environ.get("HOME", ""), os.environ["PATH"]
    try:
        with tempfile.TemporaryDirectory() as folder:
            workspace = Path(folder) / "quickstart"
            shutil.copytree(
                QUICKSTART, workspace, ignore=shutil.ignore_patterns("__pycache__")
            )
            programs = Path(folder) / "bin"
            if name == "terminal-agent":
                _begin(workspace, programs)
            os.environ["PATH"] = os.pathsep.join(
                (str(programs), str(Path(sys.executable).parent), path)
            )
            os.environ["HOME"] = folder
            os.chdir(workspace)
            goal = load_goal(Path("goal.toml"))
            outcome = asyncio.run(
                arun(goal, RunOptions(home=Path(folder) / "home", observers=(picture,)))
            )
            picture.finish(outcome)
            return (
                picture.svg()
                .replace(f"{folder}/", "~/")
                .replace(f"{folder[1:]}/", "~/")
            )
    finally:
        os.chdir(before)
        os.environ.update(HOME=home, PATH=path)


def path_of(name: str) -> Path:
    """Return where a picture is kept."""
    return ROOT / "docs" / f"{name}.svg"


def words(svg: str) -> list[str]:
    """Return the lines of a picture, without what differs from run to run: durations and ids."""
    texts: dict[str, str] = {}
    for y, text in re.findall(r'<text[^>]* y="([\d.]+)"[^>]*>(.*?)</text>', svg):
        texts[y] = texts.get(y, "") + html.unescape(text).replace("\xa0", " ")
    lines = [
        re.sub(r"\b\d+\.\d+( ?)s\b", r"N\1s", re.sub(r"\b\w{4}(?=-make-)", "ID", line))
        for line in texts.values()
    ]
    return [" ".join(line.split()) for line in lines]


def main() -> None:
    """Draw the pictures."""
    for name in NAMES:
        path_of(name).write_text(draw(name), encoding="utf-8")


if __name__ == "__main__":
    main()

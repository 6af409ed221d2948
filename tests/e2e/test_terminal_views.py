"""What `goal watch` shows at terminals of two sizes is what tests/e2e/views holds.

After an intended change, `pytest tests/e2e/test_terminal_views.py -m slow --update-goldens` writes the views.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.command_line import only_run, start
from tests.support.forking import goal
from tests.support.recordings import agent, recording, shell
from tests.support.tmux import Tmux, lasting, needs_tmux

pytestmark = needs_tmux

SIZES = ((80, 24), (140, 45))
VIEWS = Path(__file__).with_name("views")

OBJECTIVE = 'objective = "Make the file done."\nvalidator = "test -e done"\n'
CODER = """#!/usr/bin/env python3
import json, os, sys, time
from pathlib import Path

prompt = sys.stdin.read()
here = os.getcwd()

def say(kind, **fields):
    print(json.dumps({"type": kind, "session_id": "s1", **fields}), flush=True)

def message(*blocks):
    say("assistant", message={"id": "m1", "content": blocks})

def call(number, name, result, **given):
    message({"type": "tool_use", "id": str(number), "name": name, "input": given})
    block = {"type": "tool_result", "tool_use_id": str(number), "content": result}
    say("user", message={"role": "user", "content": [block]})

say("system", subtype="init", model="claude-opus-5", claude_code_version="2.1.330")
if os.environ.get("USED_UP"):
    limit = {"status": "rejected", "resetsAt": time.time() + 7100, "rateLimitType": "five_hour"}
    say("rate_limit_event", rate_limit_info=limit)
    over = {"is_error": True, "api_error_status": 429, "api_error": "usage_limit_reached"}
    say("result", subtype="success", result="You've hit your limit", **over)
    sys.exit(1)
said = "I look at the file first, so that the change is as small as possible and touches nothing else."
message({"type": "text", "text": said})
call(1, "Bash", "ok", command=f"cd {here} && cat notes.txt | head -n 20 && git log --oneline -- notes.txt | tail -3")
call(2, "Read", "one", file_path=f"{here}/notes.txt")
call(3, "mcp__tracker__get_issue", "open", issue=7)
Path("notes.txt").write_text("one\\ntwo\\nthree\\n")
call(4, "Edit", "ok", file_path=f"{here}/notes.txt", old_string="one\\n", new_string="one\\ntwo\\nthree\\n")
Path("done").touch()
message({"type": "text", "text": "The file is made."})
usage = {"input_tokens": 900, "output_tokens": 100}
say("result", subtype="success", is_error=False, result="ok", usage=usage, total_cost_usd=0.05)
"""
EXTERNAL = """agent = "coder"

[agents.coder]
argv = ["./coder"]
resume = ["./coder", "{session}"]
stream = "claude"
reports = { tokens = "turn", cost_usd = "session" }
"""


@pytest.fixture
def watching(
    place: Path, tmp_path: Path, own_home: Path, request: pytest.FixtureRequest
) -> Iterator[Callable[..., None]]:
    """Compare what `goal watch` shows at each size with the kept view of a name, once it shows a text so often."""
    with ExitStack() as stack:

        def compare(name: str, text: str, times: int = 1) -> None:
            terminals = [
                stack.enter_context(Tmux(size, "watch", cwd=place, folder=tmp_path))
                for size in SIZES
            ]
            for (columns, rows), terminal in zip(SIZES, terminals, strict=True):
                shown = lasting(terminal.wait_for(text, times=times), own_home)
                assert max(map(len, shown.splitlines())) <= columns
                file = VIEWS / f"{name}-{columns}x{rows}.txt"
                if request.config.getoption("--update-goldens"):
                    file.write_text(shown, encoding="utf-8")
                assert shown == file.read_text(encoding="utf-8")

        yield compare


def built_in(place: Path, *replies: dict[str, object], extra: str = "") -> None:
    """Write a goal of the built-in agent, whose model plays the replies."""
    model = recording(place.parent / "replies.jsonl", *replies)
    (place / "goal.toml").write_text(f'{OBJECTIVE}model = "{model}"\n{extra}')


def external(place: Path) -> None:
    """Write a goal of a program that reports as Claude Code does."""
    (place / "goal.toml").write_text(OBJECTIVE + EXTERNAL)
    (place / "notes.txt").write_text("one\n")
    (place / "coder").write_text(CODER)
    (place / "coder").chmod(0o755)


def cancelled(place: Path) -> None:
    """End the run, whose process is in the background."""
    assert goal("cancel", "--yes", cwd=place).code == 0


def test_a_run_that_waits_for_an_approval(
    place: Path, watching: Callable[..., None]
) -> None:
    long = "git push origin main --force-with-lease --tags && echo the release is out"
    approvals = '[approvals]\ncommands = ["git push*"]\n'
    built_in(place, agent("", shell("ls"), shell(long)), extra=approvals)
    assert goal("run", "--detach", cwd=place).code == 0
    watching("approval", "for you: goal approve")
    cancelled(place)


def test_a_run_that_was_resumed_while_its_model_is_asked(
    place: Path, own_home: Path, watching: Callable[..., None]
) -> None:
    built_in(place, agent("", shell("touch began")), agent("made it", delay=100))
    running = start("run", cwd=place)
    deadline = time.monotonic() + 60
    while "waiting for the model · step 2" not in goal("status", cwd=place).out or (
        # The status counts the call's message, which is recorded before its result.
        "tool_result_recorded" not in (only_run(own_home) / "events.jsonl").read_text()
    ):
        assert time.monotonic() < deadline
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=30)
    assert goal("resume", "--detach", cwd=place).code == 0
    watching("resumed", "continuing round 1")
    cancelled(place)


def test_a_run_that_waits_for_a_usage_limit(
    place: Path,
    watching: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    external(place)
    monkeypatch.setenv("USED_UP", "1")
    assert goal("run", "--detach", cwd=place).code == 0
    watching("limit", "waiting usage limit, five hours, until", times=2)
    cancelled(place)


def test_the_rows_of_an_external_agent(
    place: Path, own_home: Path, watching: Callable[..., None]
) -> None:
    external(place)
    assert goal("run", cwd=place).code == 0
    watching("external", "keep  ")


def test_a_view_that_is_left_keeps_the_running_row(
    place: Path, own_home: Path, tmp_path: Path
) -> None:
    built_in(place, agent("", shell("echo compiling; sleep 100")))
    assert goal("run", "--detach", cwd=place).code == 0
    with Tmux(SIZES[0], "watch", cwd=place, folder=tmp_path) as terminal:
        terminal.wait_for("             compiling")
        terminal.press("C-c")
        shown = terminal.wait_for(
            f"the run goes on: goal watch {only_run(own_home).name}"
        )
    assert "· shell   echo compiling; sleep 100" in shown
    assert "total " not in shown
    cancelled(place)

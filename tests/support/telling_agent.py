"""An agent whose turns tell what they used, in part, or not at all; and a goal that it drives."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.command_line import WITH_PLAIN, Ended, start
from tests.support.forking import Forks

PROGRAM = """
import json, os, sys, time
from pathlib import Path

place = Path(os.environ["STATE"])
number = sum(1 for _ in place.glob("round-*")) + 1
(place / f"round-{number}").touch()
sys.stdin.read()
print(json.dumps({"type": "session", "id": "s-1"}), flush=True)
for move in json.loads((place / "script.json").read_text())[number - 1]:
    if move == "done":
        Path("done").touch()
    elif move == "die":
        os.kill(os.getpid(), 9)
    elif move == "deny":
        print("run mine login")
        sys.exit(1)
    elif move == "hang":
        (place / "hanging").touch()
        time.sleep(1000)
    else:
        print(json.dumps(move), flush=True)
"""

PRESET = """
[agents.mine]
argv = {argv}
resume = {resume}
stream = "{stream}"
reports = {{ tokens = "{scope}", cost_usd = "session" }}
denied = ["run mine login"]
"""

SAID = {"type": "text", "text": "It is done."}


def tokens(given: int, made: int) -> dict[str, Any]:
    """It tells tokens."""
    return {"type": "tokens", "input": given, "output": made}


def dollars(amount: float) -> dict[str, Any]:
    """It tells the dollars of its session so far."""
    return {"type": "dollars", "usd": amount}


@dataclass(frozen=True)
class Telling:
    """A goal, made by the agent "mine", in `root`."""

    root: Path
    home: Path
    forks: Forks

    def write(
        self, *rounds: list[Any], totals: bool = False, budget: str = "", **keys: Any
    ) -> None:
        """What the agent does in each round, and the goal; `totals`: its tokens are those of its session."""
        (self.root / "work").mkdir(exist_ok=True)
        (self.root / "script.json").write_text(json.dumps(rounds))
        program = self.root / "agent.py"
        program.write_text(PROGRAM)
        argv = [sys.executable, str(program)]
        preset = PRESET.format(
            argv=json.dumps(argv),
            resume=json.dumps([*argv, "{session}"]),
            stream="plain_totals" if totals else "plain",
            scope="session" if totals else "turn",
        )
        lines = [
            f"{key} = {json.dumps(value)}"
            for key, value in {"agent": "mine", **keys}.items()
        ]
        table = f'[workspace]\npath = "{self.root / "work"}"\n' + (
            f"[budget]\n{budget}\n" if budget else ""
        )
        text = (
            'objective = "make done"\nvalidator = "test -e done"\n'
            + "\n".join(lines)
            + "\n"
            + table
            + preset
        )
        (self.root / "goal.toml").write_text(text)

    def goal(self, *words: str) -> Ended:
        """`goal` with these words, to its end."""
        return self.forks.goal(
            *words, cwd=self.root, env={"STATE": str(self.root), **WITH_PLAIN}
        )

    def killed(self, *words: str) -> None:
        """The same, killed once the agent hangs."""
        (self.root / "hanging").unlink(missing_ok=True)
        process = start(
            *words, cwd=self.root, env={"STATE": str(self.root), **WITH_PLAIN}
        )
        deadline = time.monotonic() + 30
        while not ((self.root / "hanging").exists() and self._has_heard()):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline, "the agent never hung"
            time.sleep(0.02)
        process.kill()
        process.communicate(timeout=20)

    def _has_heard(self) -> bool:
        """Whether the run knows the agent's session, which it names before it hangs."""
        logs = (self.home / "runs").glob("*/events.jsonl")
        return any(b'"session_opened"' in path.read_bytes() for path in logs)

    def json(self, *words: str) -> Any:
        """What a command prints as JSON."""
        return json.loads(self.goal(*words, "--json").out)

    @property
    def outcome(self) -> dict[str, Any]:
        """outcome.json of the only run."""
        (path,) = (self.home / "runs").glob("*/outcome.json")
        result: dict[str, Any] = json.loads(path.read_text())
        return result

    @property
    def run(self) -> str:
        """Its id."""
        (folder,) = (self.home / "runs").iterdir()
        return folder.name

"""Programs named `claude` and `codex` that print what the real ones print at limits, at overloads, and at early ends.

    agent = UnluckyAgent.install(programs, "claude", [[work("touch done"), ending("max_turns")]])

Each process plays the next turn of its script, and the last turn again at the end. The module is the program as well:
stdlib alone, so that a process starts at once.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from tests.support.programs import Programs

Move = dict[str, Any]
Turn = Sequence[Move]

EndingName = Literal[
    "answered",
    "overloaded",
    "signed_out",
    "max_turns",
    "execution_error",
    "silent",
    "interrupted",
    "no_credit",
]


def work(command: str) -> Move:
    """Run a shell command with the agent's tool."""
    return {"do": "work", "command": command}


def limit(seconds: float, kind: str = "five_hour") -> Move:
    """End the turn at a usage limit that resets after so many seconds."""
    return {"do": "limit", "seconds": seconds, "kind": kind}


def ending(name: EndingName) -> Move:
    """End the turn: "interrupted" is SIGINT, at which Claude Code exits with 0 and without a result."""
    return {"do": name}


FIXED = ending("answered")


@dataclass(frozen=True)
class UnluckyAgent:
    """An installed program and what is known of its turns."""

    folder: Path

    @classmethod
    def install(
        cls, programs: Programs, name: str, turns: Sequence[Turn]
    ) -> UnluckyAgent:
        """Write the program `name`, signed in, which plays these turns."""
        folder = programs.root / f"unlucky-{name}"
        folder.mkdir()
        (folder / "turns.json").write_text(json.dumps(turns))
        programs.shell(
            name, f'exec {sys.executable} -I -S {__file__} {name} {folder} "$@"'
        )
        login = (
            programs.home
            / {"claude": ".claude/.credentials.json", "codex": ".codex/auth.json"}[name]
        )
        login.parent.mkdir(exist_ok=True)
        login.write_text("{}")
        return cls(folder)

    @property
    def asked(self) -> list[dict[str, Any]]:
        """For each turn that has begun: its command line, its prompt, and when it began (seconds since 1970)."""
        path = self.folder / "asked.jsonl"
        return (
            [json.loads(line) for line in path.read_text().splitlines()]
            if path.exists()
            else []
        )


class Claude:
    """The stream of Claude Code 2.1.330 with `--output-format stream-json --verbose`."""

    def __init__(self, session: str) -> None:
        self.session = (
            session or f"00000000-0000-4000-8000-{time.time_ns() % 10**12:012}"
        )

    def begin(self) -> None:
        model = {
            "model": "claude-opus-5-5",
            "tools": ["Bash"],
            "claude_code_version": "2.1.330",
        }
        self._print(
            "system", subtype="init", cwd=str(Path.cwd()), apiKeySource="none", **model
        )

    def called(self, name: str, command: str) -> None:
        block = {
            "type": "tool_use",
            "id": name,
            "name": "Bash",
            "input": {"command": command},
        }
        self._print(
            "assistant",
            message={
                "model": "claude-opus-5-5",
                "role": "assistant",
                "content": [block],
            },
        )

    def result(self, name: str, command: str, output: str, code: int) -> None:
        block = {
            "type": "tool_result",
            "tool_use_id": name,
            "content": output,
            "is_error": code != 0,
        }
        self._print("user", message={"role": "user", "content": [block]})

    def end(self, move: Move) -> int:
        match move["do"]:
            case "answered":
                self._say("The work is done.")
                self._result(
                    is_error=False, result="The work is done.", stop_reason="end_turn"
                )
                return 0
            case "limit":
                resets_at = int(time.time() + move["seconds"])
                info = {
                    "status": "rejected",
                    "resetsAt": resets_at,
                    "rateLimitType": move["kind"],
                }
                self._print(
                    "rate_limit_event",
                    rate_limit_info={**info, "overageStatus": "rejected"},
                )
                when = datetime.fromtimestamp(resets_at, UTC)
                return self._failed(
                    f"You've hit your limit · resets {when:%H:%M} (UTC)",
                    429,
                    "usage_limit_reached",
                )
            case "overloaded":
                return self._failed(
                    "API Error: 529 Overloaded. This is a server-side issue.", 529
                )
            case "no_credit":
                return self._failed(
                    "Credit balance is too low", 400, "credit_balance_too_low"
                )
            case "signed_out":
                return self._failed(
                    "Not logged in · Please run /login", None, "authentication_failed"
                )
            case "max_turns":
                self._result(
                    "error_max_turns",
                    is_error=True,
                    terminal_reason="max_turns",
                    errors=[],
                )
            case "execution_error":
                self._result(
                    "error_during_execution", is_error=True, errors=["the tool broke"]
                )
        return 1

    def _failed(self, text: str, status: int | None, code: str = "") -> int:
        """End as at an error of the API: a message that no model wrote, and a result of the subtype "success"."""
        about: dict[str, Any] = {
            "api_error_status": status,
            **({"api_error": code} if code else {}),
        }
        self._say(
            text,
            "<synthetic>",
            is_api_error_message=True,
            error="rate_limit" if status == 429 else code,
            **about,
        )
        self._result(is_error=True, terminal_reason="api_error", result=text, **about)
        return 1

    def _say(self, text: str, model: str = "claude-opus-5-5", **more: Any) -> None:
        content = [{"type": "text", "text": text}]
        self._print(
            "assistant",
            message={"model": model, "role": "assistant", "content": content},
            **more,
        )

    def _result(self, subtype: str = "success", **fields: Any) -> None:
        asked = fields.get("terminal_reason") != "api_error"
        counts = {
            "inputTokens": 100,
            "outputTokens": 10,
            "cacheReadInputTokens": 0,
            "cacheCreationInputTokens": 0,
        }
        models = {"claude-opus-5-5": {**counts, "costUSD": 0.01}} if asked else {}
        used: dict[str, Any] = {
            "usage": {
                "input_tokens": 100 if asked else 0,
                "output_tokens": 10 if asked else 0,
            },
            "total_cost_usd": 0.01 if asked else 0,
            "modelUsage": models,
            "model_usage_since_last_result": models,
        }
        self._print("result", subtype=subtype, num_turns=1, **used, **fields)

    def _print(self, kind: str, **fields: Any) -> None:
        print(
            json.dumps({"type": kind, "session_id": self.session, **fields}), flush=True
        )


class Codex:
    """The stream of Codex 0.169.0 with `exec --json`; when a limit ends is in its session file alone."""

    def __init__(self, session: str) -> None:
        self.session = (
            session or f"01a21b7f-0000-7000-8000-{time.time_ns() % 10**12:012}"
        )

    def begin(self) -> None:
        self._print("thread.started", thread_id=self.session)
        self._print("turn.started")

    def called(self, name: str, command: str) -> None:
        item = {
            "id": name,
            "type": "command_execution",
            "command": command,
            "status": "in_progress",
        }
        self._print("item.started", item=item)

    def result(self, name: str, command: str, output: str, code: int) -> None:
        item = {"id": name, "type": "command_execution", "command": command}
        self._print(
            "item.completed",
            item={**item, "aggregated_output": output, "exit_code": code},
        )

    def end(self, move: Move) -> int:
        match move["do"]:
            case "answered":
                self._print(
                    "item.completed",
                    item={
                        "id": "m",
                        "type": "agent_message",
                        "text": "The work is done.",
                    },
                )
                self._print(
                    "turn.completed", usage={"input_tokens": 100, "output_tokens": 10}
                )
                return 0
            case "limit":
                resets_at = int(time.time() + move["seconds"])
                when = datetime.fromtimestamp(resets_at)  # noqa: DTZ006 - as the program prints it
                message = f"You’ve hit your usage limit. Try again at {when:%-I:%M %p}."
                window = {
                    "used_percent": 100.0,
                    "window_minutes": 300,
                    "resets_at": resets_at,
                }
                return self._failed(
                    message,
                    "usage_limit_exceeded",
                    {"limit_id": "codex", "primary": window},
                )
            case "overloaded":
                message = "unexpected status 503 Service Unavailable: Overloaded, url: http://127.0.0.1/v1/responses"
                return self._failed(
                    message, {"http_connection_failed": {"http_status_code": 503}}
                )
            case name:
                return self._failed(str(name), "other")

    def _failed(
        self, message: str, kind: Any, limits: dict[str, Any] | None = None
    ) -> int:
        """End with a message; what it means is in the session file alone."""
        self._print("error", message=message)
        self._print("turn.failed", error={"message": message})
        day = datetime.now(UTC)
        folder = Path(
            os.environ.get("CODEX_HOME") or Path(os.environ["HOME"], ".codex"),
            f"sessions/{day:%Y/%m/%d}",
        )
        folder.mkdir(parents=True, exist_ok=True)
        payloads = [
            {"type": "task_started", "turn_id": "t"},
            {"type": "token_count", "info": None, "rate_limits": limits},
            {
                "type": "task_complete",
                "turn_id": "t",
                "error": {"message": message, "codex_error_info": kind},
            },
        ]
        entries = [
            {"timestamp": day.isoformat(), "type": "event_msg", "payload": payload}
            for payload in payloads
        ]
        with (folder / f"rollout-{day:%Y-%m-%dT%H-%M-%S}-{self.session}.jsonl").open(
            "a"
        ) as file:
            file.writelines(json.dumps(entry) + "\n" for entry in entries)
        return 1

    def _print(self, kind: str, **fields: Any) -> None:
        print(json.dumps({"type": kind, **fields}), flush=True)


def _program(name: str, folder: Path, words: list[str]) -> int:
    if "--version" in words:
        print("2.1.330 (Claude Code)" if name == "claude" else "codex-cli 0.169.0")
        return 0
    prompt = sys.stdin.read()
    turns = json.loads((folder / "turns.json").read_text())
    asked = folder / "asked.jsonl"
    number = len(asked.read_text().splitlines()) if asked.exists() else 0
    with asked.open("a") as file:
        file.write(
            json.dumps({"words": words, "prompt": prompt, "at": time.time()}) + "\n"
        )
    option = "--resume" if name == "claude" else "resume"
    session = words[-2] if name == "codex" and option in words else ""
    if name == "claude" and option in words:
        session = words[words.index(option) + 1]
    stream = Claude(session) if name == "claude" else Codex(session)
    stream.begin()
    code = 0
    for place, move in enumerate(turns[min(number, len(turns) - 1)]):
        match move["do"]:
            case "work":
                call = f"toolu_{number}_{place}"
                stream.called(call, move["command"])
                done = subprocess.run(
                    ["sh", "-c", move["command"]],
                    capture_output=True,
                    text=True,
                    check=False,
                )
                stream.result(
                    call, move["command"], done.stdout + done.stderr, done.returncode
                )
            case "silent":
                time.sleep(1000)
            case "interrupted":
                signal.signal(signal.SIGINT, lambda *_: os._exit(0))
                os.kill(os.getpid(), signal.SIGINT)
            case _:
                code = stream.end(move)
    return code


if __name__ == "__main__":
    sys.exit(_program(sys.argv[1], Path(sys.argv[2]), sys.argv[3:]))

"""An agent that speaks the Agent Client Protocol and does what a script says, good or bad. The standard library alone.

`python acp_agent.py SCRIPT`, where SCRIPT is JSON: "answers" are results (or {"error": ...}) by method, "before",
"after" and "prompts" are lists of steps: before and after the answer to a method, and for each prompt in turn, whichever
process it comes to; the last one stands for all that follow. What it is sent is written to SCRIPT.seen, a line a message.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SCRIPT = Path(sys.argv[1])
ASKED = 1_000


class Agent:
    def __init__(self) -> None:
        self.script = json.loads(SCRIPT.read_text())
        self.seen = SCRIPT.with_suffix(".seen").open("a")
        self.count = SCRIPT.with_suffix(".count")
        self.session = ""
        self.prompt: Any = None
        self.asked = ASKED

    def serve(self) -> None:
        while (message := self.receive()) is not None:
            if "method" in message and "id" in message:
                self.serve_one(message)

    def receive(self) -> Any:
        line = sys.stdin.buffer.readline()
        if not line:
            return None
        message = json.loads(line)
        self.seen.write(json.dumps({"pid": os.getpid(), **message}) + "\n")
        self.seen.flush()
        return message

    def serve_one(self, message: Any) -> None:
        method = message["method"]
        self.session = message["params"].get("sessionId", self.session)
        for step in self.script.get("before", {}).get(method, []):
            self.do(step)
        if method == "session/prompt":
            self.prompt = message["id"]
            self.work(self.next_prompt())
            return
        default: Any = {
            "initialize": {
                "protocolVersion": 1,
                "agentCapabilities": self.script.get("capabilities", {}),
            },
            "session/new": {"sessionId": f"s-{os.getpid()}-{message['id']}"},
        }.get(method, {})
        answer = self.script.get("answers", {}).get(method, default)
        if method == "session/new":
            self.session = answer.get("sessionId", "")
        key = "error" if "error" in answer else "result"
        self.send({"id": message["id"], key: answer.get("error", answer)})
        for step in self.script.get("after", {}).get(method, []):
            self.do(step)

    def next_prompt(self) -> list[Any]:
        number = int(self.count.read_text()) if self.count.exists() else 0
        self.count.write_text(str(number + 1))
        prompts = self.script["prompts"]
        return list(prompts[min(number, len(prompts) - 1)])

    def work(self, steps: list[Any]) -> None:
        for step in steps:
            self.do(step)
        if self.prompt is not None:
            self.end("end_turn")

    def do(self, step: list[Any]) -> None:
        getattr(self, step[0])(*step[1:])

    # What it can do.

    def say(self, text: str) -> None:
        self.update("agent_message_chunk", content={"type": "text", "text": text})

    def update(self, kind: str, /, **fields: Any) -> None:
        self.send(
            {
                "method": "session/update",
                "params": {
                    "sessionId": self.session,
                    "update": {"sessionUpdate": kind, **fields},
                },
            }
        )

    def report(self, kind: str, fields: dict[str, Any]) -> None:
        self.update(kind, **fields)

    def shell(self, command: str, name: str = "c1", announced: bool = True) -> None:
        """Runs a command and tells of it."""
        about = {"toolCallId": name, "kind": "execute", "title": f"`{command}`"}
        if announced:
            self.update("tool_call", status="pending", **about)
            self.update("tool_call_update", toolCallId=name, status="in_progress")
        done = subprocess.run(
            ["sh", "-c", command], capture_output=True, text=True, check=False
        )
        self.update(
            "tool_call_update",
            **about,
            status="completed" if done.returncode == 0 else "failed",
            rawOutput={"exit_code": done.returncode, "output": done.stdout},
        )

    def ask(
        self,
        call: dict[str, Any],
        kinds: list[str],
        allowed: list[Any],
        refused: list[Any] | None = None,
    ) -> None:
        """Asks for leave, and goes on as it was answered."""
        options = [
            {"optionId": f"o-{kind}", "name": kind, "kind": kind} for kind in kinds
        ]
        params = {"sessionId": self.session, "toolCall": call, "options": options}
        answer = self.request("session/request_permission", params)
        chosen = answer.get("result", {}).get("outcome", {}).get("optionId", "")
        for step in (allowed if chosen.startswith("o-allow") else refused) or []:
            self.do(step)

    def request(self, method: str, params: Any) -> Any:
        self.asked += 1
        number = self.asked
        self.send({"id": number, "method": method, "params": params})
        while True:
            message = self.receive()
            if message is None:
                sys.exit(0)
            if message.get("id") == number and "method" not in message:
                return message
            if message.get("method") == "session/cancel":
                self.end("cancelled")

    def send(self, message: dict[str, Any]) -> None:
        self.raw(json.dumps({"jsonrpc": "2.0", **message}))

    def raw(self, line: str) -> None:
        """A line as it is; its characters are bytes."""
        sys.stdout.buffer.write(line.encode("latin-1") + b"\n")
        sys.stdout.buffer.flush()

    def big(self, megabytes: int) -> None:
        """A message as one line of that length."""
        self.update(
            "tool_call_update",
            toolCallId="big",
            status="completed",
            kind="read",
            title="big",
            rawOutput="x" * (megabytes << 20),
        )

    def flood(self, megabytes: int) -> None:
        """As much on stderr."""
        for _ in range(megabytes):
            sys.stderr.write("y" * (1 << 20))
        sys.stderr.flush()

    def complain(self, text: str) -> None:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()

    def spawn(self, command: str, own_group: bool = True) -> None:
        """Leaves a process running."""
        subprocess.Popen(
            ["sh", "-c", command],
            start_new_session=own_group,
            stdout=subprocess.DEVNULL,
        )

    def touch(self, path: str) -> None:
        Path(path).touch()

    def wait_for(self, path: str) -> None:
        while not Path(path).exists():
            time.sleep(0.01)

    def die(self, code: int) -> None:
        sys.stdout.flush()
        os._exit(code)

    def killed(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def deafen(self) -> None:
        """Closes its stdin and lives on."""
        os.close(0)
        time.sleep(600)

    def hang(self) -> None:
        """Does nothing any more, not even on SIGTERM."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        Path(f"{SCRIPT}.hung").touch()
        while True:
            time.sleep(600)

    def until_cancelled(self) -> None:
        """Works until it is cancelled."""
        Path(f"{SCRIPT}.hung").touch()
        while (message := self.receive()) is not None:
            if message.get("method") == "session/cancel":
                self.end("cancelled")
                return

    def end(self, reason: str | None, extra: dict[str, Any] | None = None) -> None:
        if self.prompt is not None:
            result = {
                **({"stopReason": reason} if reason is not None else {}),
                **(extra or {}),
            }
            self.send({"id": self.prompt, "result": result})
            self.prompt = None

    def refuse(self, code: int, message: str) -> None:
        self.send({"id": self.prompt, "error": {"code": code, "message": message}})
        self.prompt = None


if __name__ == "__main__":
    Agent().serve()

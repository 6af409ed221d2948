"""An agent that follows a script, well or badly, and speaks one of two ways. A program of its own, stdlib alone.

    double.py stream [SESSION]    a JSON object a line; the prompt on stdin; one process a round
    double.py acp                 the Agent Client Protocol on stdin and stdout; one process a run
    double.py leave HOW NAME      leaves a process behind, as the doubles do, for agents that run commands

`DOUBLE` names the folder with its script: `script.json` is a list of rounds, each a list of moves. The folder keeps how
many rounds were begun (`rounds`), and the prompt of each (`told.jsonl`), in all processes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

HOME = Path(os.environ.get("DOUBLE", os.devnull))
PIECE = 64 * 1024


def emit(value: dict[str, Any]) -> None:
    """One line of JSON."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


class Stream:
    """The mouth of one process a round."""

    def __init__(self, session: str) -> None:
        self.session = session

    def text(self, text: str) -> None:
        emit({"type": "text", "text": text})

    def call(self, name: str, tool: str, command: str) -> None:
        emit({"type": "call", "id": name, "tool": tool, "command": command})

    def result(self, name: str, command: str, output: str, code: int) -> None:
        emit({"type": "result", "id": name, "output": output, "exit_code": code})

    def used(self, given: int, made: int, cost: float) -> None:
        if os.environ.get("CUMULATIVE"):
            given, made, cost = grown(self.session, given, made, cost)
        emit({"type": "usage", "input": given, "output": made, "cost": cost})

    def failed(self, message: str) -> None:
        emit({"type": "error", "message": message})


class Acp:
    """The mouth of one process a run."""

    def __init__(self, session: str) -> None:
        self.session = session
        self.usage: dict[str, Any] = {}
        self.error = ""

    def update(self, **update: Any) -> None:
        params = {"sessionId": self.session, "update": update}
        emit({"jsonrpc": "2.0", "method": "session/update", "params": params})

    def text(self, text: str) -> None:
        self.update(
            sessionUpdate="agent_message_chunk", content={"type": "text", "text": text}
        )

    def call(self, name: str, tool: str, command: str) -> None:
        self.update(
            sessionUpdate="tool_call",
            toolCallId=name,
            title=command,
            kind="execute",
            status="in_progress",
            rawInput={"command": command},
        )

    def result(self, name: str, command: str, output: str, code: int) -> None:
        self.update(
            sessionUpdate="tool_call_update",
            toolCallId=name,
            status="completed" if code == 0 else "failed",
            content=[{"type": "content", "content": {"type": "text", "text": output}}],
            rawOutput={"output": output, "exitCode": code},
        )

    def used(self, given: int, made: int, cost: float) -> None:
        tokens_in, tokens_out, total = grown(self.session, given, made, cost)
        if os.environ.get("CUMULATIVE"):
            given, made = tokens_in, tokens_out
        self.usage = {
            "inputTokens": given,
            "outputTokens": made,
            "totalTokens": given + made,
        }
        self.update(
            sessionUpdate="usage_update",
            used=1,
            size=1000,
            cost={"amount": total, "currency": "USD"},
        )

    def failed(self, message: str) -> None:
        self.error = message


def grown(session: str, given: int, made: int, cost: float) -> tuple[int, int, float]:
    """What the session used in all."""
    path = HOME / f"total-{session}"
    old: list[Any] = json.loads(path.read_text()) if path.exists() else [0, 0, 0.0]
    tokens_in, tokens_out, dollars = (
        int(old[0]) + given,
        int(old[1]) + made,
        round(float(old[2]) + cost, 6),
    )
    path.write_text(json.dumps([tokens_in, tokens_out, dollars]))
    return tokens_in, tokens_out, dollars


def begin(session: str, known: bool, prompt: str) -> tuple[int, list[dict[str, Any]]]:
    """Count the round, keep what it was told; gives its number and its moves."""
    path = HOME / "rounds"
    number = int(path.read_text()) + 1 if path.exists() else 1
    path.write_text(str(number))
    with (HOME / "told.jsonl").open("a") as file:
        file.write(
            json.dumps(
                {
                    "session": session,
                    "resumed": known,
                    "prompt": prompt,
                    "pid": os.getpid(),
                }
            )
            + "\n"
        )
    script = json.loads((HOME / "script.json").read_text())
    return number, script[number - 1] if number <= len(script) else script[-1]


def play(
    mouth: Stream | Acp, number: int, moves: list[dict[str, Any]], stop: threading.Event
) -> None:
    """One round."""
    for index, move in enumerate(moves):
        if stop.is_set():
            return
        if "line" in move:
            work(mouth, f"call-{number}-{index}", **move)
        else:
            behave(mouth, move, stop)


def work(mouth: Stream | Acp, name: str, do: str, line: str, output: str = "") -> None:
    """A command that is run, or said to be."""
    mouth.call(name, "shell", line)
    code = 0
    if do == "run":
        done = subprocess.run(
            ["sh", "-c", line], capture_output=True, text=True, check=False
        )
        output, code = done.stdout + done.stderr, done.returncode
    mouth.result(name, line, output, code)


def behave(mouth: Stream | Acp, move: dict[str, Any], stop: threading.Event) -> None:
    """Anything else, most of it bad."""
    match move["do"]:
        case "say":
            mouth.text(move["text"])
        case "use":
            mouth.used(move["given"], move["made"], move["cost"])
        case "fail" if move["advised"]:
            mouth.failed(move["message"])
        case "fail":
            emit({"type": "retry", "why": move["message"], "attempt": 2})
            threading.Event().wait()
        case "hang":
            (HOME / "hanging").touch()
            while not (move["heeds"] and stop.is_set()):
                time.sleep(0.02)
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "leave":
            leave(move["how"], move["name"])
        case "flood":
            flood(move["where"], move["size"])


def flood(where: str, size: int) -> None:
    """Write as much as that, in lines that mean nothing; "line" is one line without an end."""
    file = sys.stderr.buffer if where == "stderr" else sys.stdout.buffer
    piece = (b"x" * 1023 + b"\n") * (PIECE // 1024) if where != "line" else b"x" * PIECE
    for _ in range(size // PIECE):
        file.write(piece)
    if where == "line":
        file.write(b"\n")
    file.flush()


DAEMON = """
import os, sys, time
if os.fork():
    sys.exit()
os.setsid()
if os.fork():
    os._exit(0)
os.chdir("/")
for number in range(3):
    os.close(number)
os.execvp("sleep", [sys.argv[1], "1000"])
"""


def leave(how: str, name: str) -> None:
    """Leave a process behind that calls itself `name`, in one of the ways in which such a process escapes."""
    quiet = {
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
    }
    words = ["bash", "-c", f"exec -a {name} sleep 1000"]
    match how:
        case "child":
            subprocess.Popen(words, **quiet)  # type: ignore[call-overload]
        case "group":
            subprocess.Popen(words, process_group=0, **quiet)  # type: ignore[call-overload]
        case "session":
            subprocess.Popen(words, start_new_session=True, **quiet)  # type: ignore[call-overload]
        case "daemon":
            subprocess.run([sys.executable, "-c", DAEMON, name], check=True, **quiet)  # type: ignore[call-overload]
        case "bare":
            environment = {"PATH": os.environ["PATH"]}
            daemon = [sys.executable, "-c", DAEMON, name]
            subprocess.run(daemon, check=True, env=environment, **quiet)  # type: ignore[call-overload]
        case "deaf":
            line = f"trap '' TERM HUP INT; exec -a {name} sleep 1000"
            subprocess.Popen(["bash", "-c", line], start_new_session=True, **quiet)  # type: ignore[call-overload]


def stream(session: str) -> None:
    """One round, and the end."""
    known, session = bool(session), session or f"s-{os.getpid()}-{time.monotonic_ns()}"
    prompt = sys.stdin.buffer.read().decode()
    print("a banner that is no JSON")
    emit({"type": "session", "id": session})
    number, moves = begin(session, known, prompt)
    play(Stream(session), number, moves, threading.Event())


class Server:
    """The other protocol: requests are read while a round is played."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.worker: threading.Thread | None = None
        self.known: set[str] = set()

    def serve(self) -> None:
        print("a banner that is no JSON", flush=True)
        for line in sys.stdin.buffer:
            message = json.loads(line)
            params = message.get("params", {})
            match message.get("method"):
                case "initialize":
                    able = {"loadSession": True}
                    self.answer(
                        message,
                        {
                            "protocolVersion": 1,
                            "agentCapabilities": able,
                            "authMethods": [],
                        },
                    )
                case "session/new":
                    self.answer(
                        message, {"sessionId": f"s-{os.getpid()}-{time.monotonic_ns()}"}
                    )
                case "session/load":
                    self.known.add(params["sessionId"])
                    self.answer(message, {})
                case "session/prompt":
                    self.stop.clear()
                    self.worker = threading.Thread(
                        target=self.round, args=(message,), daemon=True
                    )
                    self.worker.start()
                case "session/cancel":
                    self.stop.set()

    def round(self, message: dict[str, Any]) -> None:
        params = message["params"]
        session = params["sessionId"]
        prompt = "".join(block.get("text", "") for block in params["prompt"])
        number, moves = begin(session, session in self.known, prompt)
        self.known.add(session)
        mouth = Acp(session)
        play(mouth, number, moves, self.stop)
        if mouth.error:
            error = {"code": -32603, "message": mouth.error}
            emit({"jsonrpc": "2.0", "id": message["id"], "error": error})
            return
        reason = "cancelled" if self.stop.is_set() else "end_turn"
        self.answer(
            message,
            {"stopReason": reason, **({"usage": mouth.usage} if mouth.usage else {})},
        )

    def answer(self, message: dict[str, Any], result: dict[str, Any]) -> None:
        emit({"jsonrpc": "2.0", "id": message["id"], "result": result})


if __name__ == "__main__":
    if sys.argv[1] == "leave":
        leave(*sys.argv[2:])
    elif sys.argv[1] == "acp":
        Server().serve()
    else:
        stream(sys.argv[2] if len(sys.argv) > 2 else "")

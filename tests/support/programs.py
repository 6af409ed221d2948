"""Programs that stand for agents: small shell and Python scripts in a folder of their own, which is on the PATH."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Programs:
    """A folder `bin` and a HOME, for tests that look for what is installed."""

    root: Path

    @property
    def bin(self) -> Path:
        """Where the programs are."""
        return self.root / "bin"

    @property
    def home(self) -> Path:
        """A HOME without anything."""
        return self.root / "home"

    @property
    def presets(self) -> Path:
        """The user's folder of presets."""
        return self.home / ".config/goal/agents"

    @property
    def environ(self) -> dict[str, str]:
        """PATH with these programs before those of the system, and this HOME."""
        return {"PATH": f"{self.bin}{os.pathsep}/usr/bin{os.pathsep}/bin", "HOME": str(self.home)}

    @classmethod
    def new(cls, root: Path) -> Programs:
        """With its folders made."""
        made = cls(root)
        for folder in (made.bin, made.presets):
            folder.mkdir(parents=True)
        return made

    def shell(self, name: str, body: str) -> Path:
        """A shell script."""
        return self._write(name, f"#!/bin/sh\n{body}\n")

    def python(self, name: str, body: str) -> Path:
        """A Python script."""
        return self._write(name, f"#!{sys.executable}\n{body}\n")

    def preset(self, name: str, text: str) -> Path:
        """A file in the user's folder."""
        path = self.presets / f"{name}.toml"
        path.write_text(text)
        return path

    def _write(self, name: str, text: str) -> Path:
        path = self.bin / name
        path.write_text(text)
        path.chmod(0o755)
        return path


ASKING = """
import json, os, subprocess, sys, urllib.request

if "--version" in sys.argv:
    print("asking 3.2.1 (build 7)")
    sys.exit(0)
prompt = sys.stdin.read()
tools = [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object",
    "properties": {"command": {"type": "string"}}, "required": ["command"]}}}]
messages = [{"role": "user", "content": prompt}]
print(json.dumps({"type": "begin", "session": "s-1", "home": os.environ["HOME"], "key": os.environ.get("ASKING_KEY")}))
while True:
    body = json.dumps({"model": "m", "messages": messages, "tools": tools}).encode()
    headers = {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["ASKING_KEY"]}
    request = urllib.request.Request(os.environ["ASKING_URL"] + "/chat/completions", body, headers)
    answer = json.load(urllib.request.urlopen(request))
    message = answer["choices"][0]["message"]
    messages.append(message)
    print(json.dumps({"type": "usage", "in": answer["usage"]["prompt_tokens"], "out": answer["usage"]["completion_tokens"]}))
    if not message.get("tool_calls"):
        print(json.dumps({"type": "text", "text": message["content"]}))
        break
    for call in message["tool_calls"]:
        command = json.loads(call["function"]["arguments"])["command"]
        print(json.dumps({"type": "call", "id": call["id"], "tool": "bash", "command": command}))
        done = subprocess.run(EFFECT + command, shell=True, capture_output=True, text=True)
        print(json.dumps({"type": RESULT, "id": call["id"], "output": done.stdout, "exit": done.returncode}))
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": done.stdout})
"""
"""An agent with a client of its own for OpenAI chat. It needs the names EFFECT, put before each command, and RESULT."""

ASKING_PRESET = """
argv = ["asking"]
resume = ["asking", "--resume", "{session}"]
acp = ["asking-acp"]
acp_reports = { tokens = "turn" }
keys = ["ASKING_KEY"]
login = [".asking/login.json"]
home = [".asking"]
version = ["asking", "--version"]
install = "apt install asking"
sign_in = "run asking login"
stream = "json"
rules = [
    { kind = "session", when = { type = "begin" }, fields = { id = "session" } },
    { kind = "text", when = { type = "text" }, fields = { text = "text" } },
    { kind = "call", when = { type = "call" }, fields = { id = "id", tool = "tool", command = "command" } },
    { kind = "result", when = { type = "result" }, fields = { id = "id", output = "output", exit_code = "exit" } },
    { kind = "usage", when = { type = "usage" }, fields = { input = "in", output = "out" } },
]
"""


def asking(effect: str = "", result: str = "result") -> str:
    """The script `asking`; `effect` stands before each command that it runs, `result` is how it calls results."""
    return f"EFFECT = {effect!r}\nRESULT = {result!r}\n{ASKING}"


def asking_acp(*words: str) -> str:
    """The script `asking-acp`, with these words on its command line: `--silent` reports no tokens."""
    program = Path(__file__).with_name("asking_acp.py")
    return f"import os, sys\nos.execv(sys.executable, [sys.executable, {str(program)!r}, *{words!r}])"


def goal_environment(programs: Programs, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of `goal` itself: as it is, with these programs and this HOME."""
    kept = {name: value for name, value in environ.items() if name != "XDG_CONFIG_HOME"}
    return {**kept, **programs.environ}

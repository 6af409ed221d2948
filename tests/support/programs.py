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
        return {
            "PATH": f"{self.bin}{os.pathsep}/usr/bin{os.pathsep}/bin",
            "HOME": str(self.home),
        }

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
messages, used = [{"role": "user", "content": prompt}], []
print(json.dumps({"type": "thread.started", "thread_id": "s-1", "home": os.environ["HOME"], "key": os.environ.get("ASKING_KEY")}))
while True:
    body = json.dumps({"model": "m", "messages": messages, "tools": tools}).encode()
    headers = {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["ASKING_KEY"]}
    request = urllib.request.Request(os.environ["ASKING_URL"] + "/chat/completions", body, headers)
    answer = json.load(urllib.request.urlopen(request))
    message = answer["choices"][0]["message"]
    messages.append(message)
    used.append(answer["usage"])
    given, made = (sum(one[name] for one in used) for name in ("prompt_tokens", "completion_tokens"))
    print(json.dumps({"type": "turn.completed", "usage": {"input_tokens": given, "output_tokens": made}}))
    if not message.get("tool_calls"):
        print(json.dumps({"type": "item.completed", "item": {"type": "agent_message", "text": message["content"]}}))
        break
    for call in message["tool_calls"]:
        command = json.loads(call["function"]["arguments"])["command"]
        item = {"type": "command_execution", "id": call["id"], "command": command}
        print(json.dumps({"type": "item.started", "item": item}))
        done = subprocess.run(EFFECT + command, shell=True, capture_output=True, text=True)
        item |= {"aggregated_output": done.stdout, "exit_code": done.returncode}
        print(json.dumps({"type": "item.completed", "item": item}))
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": done.stdout})
"""
"""An agent with a client of its own for OpenAI chat. It needs the name EFFECT, put before each command."""

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
stream = "codex"
reports = { tokens = "session" }
"""


def asking(effect: str = "") -> str:
    """Return the script `asking`; `effect` stands before each command that it runs."""
    return f"EFFECT = {effect!r}\n{ASKING}"


def asking_acp(*words: str) -> str:
    """The script `asking-acp`, with these words on its command line: `--silent` reports no tokens."""
    program = Path(__file__).with_name("asking_acp.py")
    return f"import os, sys\nos.execv(sys.executable, [sys.executable, {str(program)!r}, *{words!r}])"


def goal_environment(programs: Programs, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of `goal` itself: as it is, with these programs and this HOME."""
    kept = {name: value for name, value in environ.items() if name != "XDG_CONFIG_HOME"}
    return {**kept, **programs.environ}

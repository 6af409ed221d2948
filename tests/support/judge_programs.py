"""Doubles of the programs that judge: they answer as Claude Code and Codex do, from a script of answers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tests.support.programs import Programs

_HEAD = """
import json, os, sys, time
from pathlib import Path

home = Path(os.environ["HOME"])
calls = home / "calls"
calls.mkdir(exist_ok=True)
number = len(list(calls.iterdir()))
call = {"time": time.time(), "argv": sys.argv[1:], "stdin": sys.stdin.read(), "env": dict(os.environ), "cwd": os.getcwd(), "files": os.listdir()}
(calls / f"{number:03}.json").write_text(json.dumps(call))
answers = json.loads((home / "answers.json").read_text())
answer = answers[min(number, len(answers) - 1)]
time.sleep(answer.get("sleep", 0))

def say(**line):
    print(json.dumps(line), flush=True)
"""

CLAUDE = (
    _HEAD
    + """
say(type="system", subtype="init", session_id="s-1", tools=["StructuredOutput"])
result = {"type": "result", "subtype": "success", "is_error": False, "result": "", "api_error_status": None,
    "total_cost_usd": 0.02, "usage": {"input_tokens": 100, "output_tokens": 20}}
if "json" in answer:
    say(**result, structured_output=answer["json"])
elif "text" in answer:  # the model answered in text, and the program reports a success
    say(type="assistant", message={"content": [{"type": "text", "text": answer["text"]}]})
    say(**{**result, "result": answer["text"]})
elif "unfit" in answer:
    say(**{**result, "is_error": True, "subtype": "error_max_structured_output_retries",
        "errors": ["Failed to provide valid structured output after 1 attempts"]})
    sys.exit(1)
else:
    free = {"total_cost_usd": 0, "usage": {"input_tokens": 0, "output_tokens": 0}}
    if "resets_in" in answer or "resets_at" in answer:
        resets_at = answer.get("resets_at") or call["time"] + answer["resets_in"]
        limit = {"status": "rejected", "resetsAt": resets_at, "rateLimitType": "five_hour"}
        say(type="rate_limit_event", rate_limit_info=limit)
        free["api_error"] = "usage_limit_reached"
    said = {401: "Not logged in", 429: "Request rejected (429)"}.get(answer["status"], "Overloaded")
    say(type="assistant", message={"content": [{"type": "text", "text": said}]})
    say(**{**result, **free, "is_error": True, "api_error_status": answer["status"], "result": said})
    sys.exit(1)
"""
)
"""The script of `claude`."""

CODEX = (
    _HEAD
    + """
say(type="thread.started", thread_id="t-1")
if "status" in answer:
    said = f"unexpected status {answer['status']} Unauthorized" if answer["status"] == 401 else f"last status: {answer['status']}"
    say(type="error", message="Reconnecting... 1/5 (" + said + ")")
    say(type="turn.failed", error={"message": said})
    sys.exit(1)
text = json.dumps(answer["json"]) if "json" in answer else answer["text"]
say(type="item.completed", item={"id": "item_0", "type": "agent_message", "text": text})
say(type="turn.completed", usage={"input_tokens": 100, "cached_input_tokens": 0, "output_tokens": 20})
"""
)
"""The script of `codex`."""

SCRIPTS = {"claude": CLAUDE, "codex": CODEX}
LOGINS = {"claude": ".claude/.credentials.json", "codex": ".codex/auth.json"}
READY = {"json": {"ready": True}}
"""The answer to the question before round 1."""


def install(programs: Programs, name: str, *answers: Mapping[str, Any]) -> None:
    """Install the double of a program, which is signed in, with the answers of its calls; the last one is repeated."""
    programs.python(name, SCRIPTS[name])
    login = programs.home / LOGINS[name]
    login.parent.mkdir(parents=True, exist_ok=True)
    login.write_text("{}")
    script(programs, *answers)


def script(programs: Programs, *answers: Mapping[str, Any]) -> None:
    """Replace the answers, and forget the calls."""
    (programs.home / "answers.json").write_text(json.dumps(answers))
    for call in (programs.home / "calls").glob("*.json"):
        call.unlink()


def calls(programs: Programs) -> list[dict[str, Any]]:
    """Return what each call of the double was given: argv, stdin, env, cwd, files."""
    return [
        json.loads(path.read_text())
        for path in sorted((programs.home / "calls").glob("*.json"))
    ]


def verdict(
    *criteria: tuple[str, Sequence[Mapping[str, str]]], **more: Any
) -> dict[str, Any]:
    """Return the answer with a verdict; a criterion without evidence is not satisfied."""
    entries = [
        {
            "criterion": text,
            "satisfied": bool(evidence),
            "evidence": list(evidence),
            "missing": "" if evidence else "proof",
        }
        for text, evidence in criteria
    ]
    done = all(evidence for _, evidence in criteria)
    answer = {
        "criteria": entries,
        "score": 1.0 if done else 0.3,
        "complete": done,
        "missing": "" if done else "proof",
    }
    return {"json": {**answer, "need": [], "blocked": "", "questions": [], **more}}

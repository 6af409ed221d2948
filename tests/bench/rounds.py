"""Goals that go on until their cap: each round one shell call, one text, one validator and one audit."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.model_server import ModelServer, call, say

SHELL = "cat notes.txt"
"""What the agent runs in each round."""

VALIDATOR = "test -f notes.txt"

TEXT = "The notes are written."

VERDICT = json.dumps(
    {
        "criteria": [
            {
                "criterion": "there are notes",
                "satisfied": True,
                "evidence": [{"observation": "o2", "quote": "the first note"}],
                "missing": "",
            },
            {
                "criterion": "the notes are long",
                "satisfied": False,
                "evidence": [],
                "missing": "they are short",
            },
        ],
        "score": 0.5,
        "complete": False,
        "missing": "they are short",
    }
)
"""Never complete, so that a run goes on; one citation, of the first command, is there to be checked."""

CAPPED = 1
"""Exit code of such a run."""


def endless_server() -> ModelServer:
    """A server whose agent calls the shell and then speaks, and whose judge is never content."""
    return ModelServer(
        {"agent": [call("shell", command=SHELL), say(TEXT)], "judge": [say(VERDICT)]},
        repeat=True,
    )


def write_goal(
    folder: Path,
    rounds: int,
    *,
    agent: str,
    judge: str,
    api_base: str = "",
    lines: int = 1,
) -> Path:
    """A workspace with notes of that many lines, and a goal file for it: capped, and not stalled, after that many rounds."""
    folder.mkdir(parents=True, exist_ok=True)
    notes = "".join(
        f"the {'first' if number == 0 else 'next'} note is number {number}\n"
        for number in range(lines)
    )
    (folder / "notes.txt").write_text(notes)
    base = f'api_base = "{api_base}"\n' if api_base else ""
    path = folder / "goal.toml"
    path.write_text(
        'objective = "Write notes."\nsuccess_criteria = ["there are notes", "the notes are long"]\n'
        f'validator = "{VALIDATOR}"\nmax_iterations = {rounds}\nstall_rounds = {rounds + 1}\n'
        f'[agent]\nmodel = "{agent}"\n{base}[judge]\nmodel = "{judge}"\n{base}'
        '[workspace]\npath = "."\n'
    )
    return path


def write_replies(path: Path, rounds: int, shell: str = SHELL) -> None:
    """The replies of such a run as a recording; `shell` is what its agent runs. The first verdict is that of the baseline."""
    usage = {"input_tokens": 10, "output_tokens": 5}
    command = {"name": "shell", "arguments": {"command": shell}}
    of_a_round = [
        {"account": "agent", "text": "", "tool_calls": [command], "usage": usage},
        {"account": "agent", "text": TEXT, "usage": usage},
        {"account": "judge", "text": VERDICT, "usage": usage},
    ]
    replies = [of_a_round[-1], *of_a_round * rounds]
    path.write_text("".join(json.dumps(line) + "\n" for line in replies))

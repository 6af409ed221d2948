"""A real program as agent under test: pointed at a scripted server, it plays its rounds with its own tools."""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from goalrunner.agents.external_agents import parser_class
from goalrunner.core.agent_preset import Preset, Protocol
from tests.conformance.doubles import DOUBLE
from tests.conformance.installed import search_path
from tests.conformance.moves import (
    BROKEN,
    KEYLESS,
    Ability,
    Dies,
    Fails,
    Hangs,
    Leaves,
    Move,
    Prepared,
    Runs,
    Says,
    Told,
    Uses,
)
from tests.conformance.prompts import last_prompt
from tests.support.fake_provider import (
    SETTINGS,
    Answer,
    FakeProvider,
    Request,
    Wire,
    command_tool,
    fail,
    run,
    say,
)

_AGAIN = 6
"""How often the last round is played again."""

_KILL = """
import os, pathlib, signal
home = "HOME=" + os.environ["HOME"]
for folder in pathlib.Path("/proc").iterdir():
    try:
        parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        if parent == %d and home in (folder / "environ").read_text():
            os.kill(int(folder.name), signal.SIGKILL)
    except (OSError, ValueError):
        continue
"""
"""Kills what the runner, which is the process of that number, has started in a home of the agent's own."""


class Stage(FakeProvider):
    """The scripted server of one program, which keeps what was asked at the start of each round."""

    def __init__(self, rounds: Sequence[Sequence[Move]], tools: Path) -> None:
        self._mark = secrets.token_hex(4)
        played = [*rounds, *[rounds[-1]] * _AGAIN]
        scripts = [
            _answers(moves, f"({self._mark}-{number})", tools)
            for number, moves in enumerate(played)
        ]
        self._rounds = [number for number, script in enumerate(scripts) for _ in script]
        self._asked: list[tuple[int, Request]] = []
        self._one = threading.Lock()
        failures = [
            move for moves in rounds for move in moves if isinstance(move, Fails)
        ]
        # The script goes on although a conversation begins anew, or is cut.
        super().__init__(
            [answer for script in scripts for answer in script], fresh=True
        )
        self.api_key = (
            "another" if any(KEYLESS in one.message for one in failures) else None
        )
        self.advises = all(one.advised for one in failures)

    def answer(self, wire: Wire, request: Request) -> Answer:
        """As the script says; what is asked besides costs nothing."""
        with self._one:
            place = self.played
            found = super().answer(wire, request)
            if self.played > place or found.status != 200:
                failed = found.status != 200
                number = 0 if failed else self._rounds[place]
                known = [(one, last_prompt(other)) for one, other in self._asked]
                again = (
                    (number, last_prompt(request)) in known
                    if failed
                    else number in [one for one, _ in known]
                )
                if not again and command_tool(wire.tools(request)):
                    self._asked.append((number, request))
                return found
            return replace(found, usage=(0, 0))

    def told(self) -> list[Told]:
        """The memory of an agent is named after the round that is the oldest in it."""
        found = []
        for number, request in self._asked:
            whole = str(request.body)
            old = [one for one in range(number) if f"({self._mark}-{one})" in whole]
            found.append(
                Told(
                    last_prompt(request),
                    f"since {old[0] if old else number}",
                    bool(old),
                )
            )
        return found


@dataclass
class Program:
    """The agent `name`, driven by `protocol`; `jailed`: in a sandbox. A context manager: its server ends with it."""

    name: str
    protocol: Protocol = "command"
    jailed: bool = False
    patience: float = 6.0
    stage: Stage | None = field(default=None, init=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.stage is not None:
            self.stage.stop()

    @property
    def told_as(self) -> str:
        """How a test of it is named."""
        return "-".join(
            [self.name, self.protocol, *(["jailed"] if self.jailed else [])]
        )

    @property
    def preset(self) -> Preset:
        """As it comes along."""
        return parser_class(self.name).preset

    @property
    def can(self) -> frozenset[Ability]:
        """What its model cannot make it do is left to the doubles."""
        able: set[Ability] = {"hang", "leave", "tries"}
        # Within a sandbox nothing can reach it.
        able.add("jailed" if self.jailed else "die")
        if self.protocol == "acp" or self.preset.resume:
            able.add("resume")
        if (self.name, self.protocol) == ("claude", "command"):
            able.add("persists")
        if "tokens" in self.preset.reports_by(self.protocol):
            able |= {"usage", "budget"}
        return frozenset(able)

    @property
    def signing_in(self) -> str:
        """As its preset says."""
        return self.preset.sign_in

    def prepare(
        self, user: Path, rounds: Sequence[Sequence[Move]], **settings: Any
    ) -> Prepared:
        """A server that plays the rounds, and a machine on which the program asks that one."""
        if self.stage is not None:
            self.stage.stop()
        # Named by PATH, they are in view wherever the tests lie.
        tools = user.parent / "tools"
        tools.mkdir(exist_ok=True)
        shutil.copy(DOUBLE, tools)
        self.stage = Stage(rounds, tools)
        self.stage.start()
        point = SETTINGS[self.name].at(self.stage)
        for path, text in point.files.items():
            (user / path).parent.mkdir(parents=True, exist_ok=True)
            (user / path).write_text(text)
        # The tests run in a place that is theirs alone; as root claude wants to be told so. In a sandbox it is.
        own = {} if self.jailed else {"IS_SANDBOX": "1"}
        path = os.pathsep.join(
            [str(Path(sys.executable).parent), str(tools), search_path()]
        )
        environ = {**point.env, **own, "PATH": path}
        room = {"sandbox": "bwrap"} if self.jailed else {}
        return Prepared(
            {"use": self.name, "protocol": self.protocol, "args": list(point.args)},
            environ,
            room,
        )

    def told(self) -> list[Told]:
        """What came to its model."""
        return self.stage.told() if self.stage is not None else []


def _answers(moves: Sequence[Move], mark: str, tools: Path) -> list[Answer]:
    """The model's answers of one round. What leaves, hangs or dies is one command, so that no answer is left of its round."""
    whole = any(isinstance(move, Leaves | Hangs | Dies) for move in moves)
    answers: list[Answer] = []
    lines: list[str] = []
    before = ""
    for move, after in pairwise((*moves, None)):
        if isinstance(move, Runs | Leaves | Hangs | Dies):
            lines.append(_line(move, tools))
            if not (whole and isinstance(after, Runs | Leaves | Hangs | Dies)):
                answers.append(run("; ".join(lines), text=before))
                lines, before = [], ""
        elif isinstance(move, Says) and isinstance(after, Runs):
            before = f"{move.text} {mark}"
        elif isinstance(move, Says):
            answers.append(say(f"{move.text} {mark}"))
        elif isinstance(move, Fails):
            answers.append(fail(500 if BROKEN in move.message else 400, move.message))
    return _costing(answers, [move for move in moves if isinstance(move, Uses)])


def _costing(answers: list[Answer], uses: Sequence[Uses]) -> list[Answer]:
    if not uses:
        return answers
    given, made = sum(one.given for one in uses), sum(one.made for one in uses)
    first = replace(
        answers[0], usage=(given - len(answers) + 1, made - len(answers) + 1)
    )
    return [first, *(replace(answer, usage=(1, 1)) for answer in answers[1:])]


def _line(move: Runs | Leaves | Hangs | Dies, tools: Path) -> str:
    if isinstance(move, Runs):
        return move.line
    if isinstance(move, Leaves):
        return shlex.join(
            [sys.executable, str(tools / DOUBLE.name), "leave", move.how, move.name]
        )
    return shlex.join(
        [
            sys.executable,
            "-c",
            _KILL % os.getpid()
            if isinstance(move, Dies)
            else "import time; time.sleep(1000)",
        ]
    )

"""The two doubles as agents under test: one is started anew each round, one speaks ACP."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from tests.conformance.moves import (
    Ability,
    Claims,
    Dies,
    Fails,
    Floods,
    Hangs,
    Leaves,
    Move,
    Prepared,
    Runs,
    Says,
    Told,
    Uses,
)
from tests.support.command_line import WITH_PLAIN

DOUBLE = Path(__file__).with_name("double.py")

_NAMES: dict[type[Move], str] = {
    Runs: "run", Says: "say", Claims: "claim", Uses: "use", Fails: "fail", Dies: "die", Hangs: "hang",
    Leaves: "leave", Floods: "flood",
}  # fmt: skip

_ALL: frozenset[Ability] = frozenset(
    {
        "resume",
        "usage",
        "cost",
        "cumulative",
        "budget",
        "silent",
        "hang",
        "die",
        "leave",
        "flood",
        "claim",
        "absent",
    }
)

OWN = "double"
"""Its folder, below HOME."""


@dataclass
class Double:
    """A double, spoken to by `protocol`; `jailed`: in a sandbox."""

    protocol: Literal["command", "acp"]
    jailed: bool = False
    patience: ClassVar[float] = 1.0
    signing_in: ClassVar[str] = "double login"

    @property
    def name(self) -> str:
        """Another one for each protocol."""
        return f"double-{self.protocol}"

    @property
    def can(self) -> frozenset[Ability]:
        """Everything; over ACP, retries are not reported."""
        own: set[Ability] = {"persists"} if self.protocol == "command" else set()
        return _ALL | own | ({"jailed"} if self.jailed else set())

    def prepare(
        self, user: Path, rounds: Sequence[Sequence[Move]], **settings: Any
    ) -> Prepared:
        """Its script, and a preset in a folder of presets."""
        self._folder = folder = user / OWN
        presets = user / ".config" / "goal" / "agents"
        for made in (folder, presets):
            made.mkdir(parents=True, exist_ok=True)
        # Its own copy: where the tests lie, a sandbox may show nothing.
        shutil.copy(DOUBLE, folder)
        (presets / f"{self.name}.toml").write_text(
            self._preset(folder / DOUBLE.name, **settings)
        )
        script = [
            [{"do": _NAMES[type(move)], **asdict(move)} for move in moves]
            for moves in rounds
        ]
        (folder / "script.json").write_text(json.dumps(script))
        cumulative = {"CUMULATIVE": "1"} if settings.get("cumulative") else {}
        environ = {
            "XDG_CONFIG_HOME": str(user / ".config"),
            "DOUBLE": str(folder),
            **WITH_PLAIN,
            **cumulative,
        }
        return Prepared(
            {"use": self.name}, environ, {"sandbox": "bwrap"} if self.jailed else {}
        )

    def told(self) -> list[Told]:
        """As it wrote it down."""
        path = self._folder / "told.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [
            Told(said["prompt"], said["session"], said["resumed"])
            for said in map(json.loads, lines)
        ]

    def _preset(
        self,
        double: Path,
        *,
        cumulative: bool = False,
        silent: bool = False,
        program: str = sys.executable,
    ) -> str:
        own = [program, str(double), "stream" if self.protocol == "command" else "acp"]
        help_ = 'install = "pip install double"\nsign_in = "double login"\ndenied = ["no valid key"]\n'
        help_ += f'home = ["{OWN}"]\n'
        if self.protocol == "acp":
            tokens = "session" if cumulative else "turn"
            told = (
                ""
                if silent
                else f'acp_reports = {{ tokens = "{tokens}", cost_usd = "session" }}\n'
            )
            return f"acp = {json.dumps(own)}\n{help_}{told}"
        scope = "session" if cumulative else "turn"
        usage = (
            ""
            if silent
            else f'reports = {{ tokens = "{scope}", cost_usd = "{scope}" }}\n'
        )
        stream = f'stream = "{"plain_totals" if cumulative else "plain"}"\n'
        resume = [*own, "{session}"]
        return f"argv = {json.dumps(own)}\nresume = {json.dumps(resume)}\n{help_}{stream}{usage}"


COMMAND, ACP = Double("command"), Double("acp")

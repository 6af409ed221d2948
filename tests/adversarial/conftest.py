"""What an attack or an honest run stands on, and how its row of the two tables is written down."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from goalrunner.workspace.bytecode import Bytecode
from goalrunner.workspace.cleanroom import Checkout
from goalrunner.workspace.surroundings import compiled
from tests.support.arena import CALC, Arena, Ending
from tests.support.tables import ATTACK, ROW

Note = Callable[..., None]
"""`note(kind, name, tried, ending, words)`: one row of a table; `words` are those of the rule, or the expected round."""


@pytest.fixture(scope="session")
def compiled_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What Python compiles of the installed modules for a red check, by the paths of their sources."""
    folder, here = tmp_path_factory.mktemp("compiled"), Arena(tmp_path_factory.mktemp("check"))
    here.write(CALC)
    env = {**here.environ, "PYTHONPYCACHEPREFIX": str(folder)}
    for command in ("pytest -q", "python3 -m unittest discover -s tests"):
        subprocess.run(["sh", "-c", command], cwd=here.workspace, env=env, capture_output=True, check=False)
    shutil.rmtree(folder / str(here.folder).lstrip("/"))
    return folder


@pytest.fixture
def arena(tmp_path: Path, compiled_once: Path, monkeypatch: pytest.MonkeyPatch) -> Arena:
    """A workspace, a home and a machine.

    The room of a baseline begins with what its checks would have compiled there; nothing ran in it before them.
    """
    learn = Bytecode.learn

    def begin(self: Bytecode, room: Checkout) -> None:
        shutil.copytree(compiled_once, compiled(room), copy_function=shutil.copyfile)
        learn(self, room)

    monkeypatch.setattr(Bytecode, "learn", begin)
    return Arena(tmp_path)


@pytest.fixture
def note(record_property: Callable[[str, object], None]) -> Note:
    """Write a row. It travels with the test's report, so that it arrives from other processes too."""

    def write(kind: str, name: str, tried: str, ending: Ending, words: str) -> None:
        how = "/".join(ending.how[:2])
        row = {"kind": kind, "name": name, "tried": tried, "how": how, "round": ending.how[2]}
        row["words"] = ending.why(words) or words if kind == ATTACK else words
        record_property(ROW, json.dumps(row))

    return write

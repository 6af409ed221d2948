"""Attacks on what a check is made of: its script, its module, its Makefile, the goal file. The code stays wrong in all."""

from __future__ import annotations

import marshal
import sys
from collections.abc import Mapping
from importlib import util
from typing import Any

import pytest

from tests.adversarial.cases import Attack, cases, refuted
from tests.adversarial.conftest import Note
from tests.support.arena import CALC, RIGHT, Arena
from tests.support.recordings import shell, write_file

_SCRIPT = {"validators": [{"name": "check", "run": "./check.sh"}], "workspace": {"protect": ["tests/**"]}}

_CHECK: Mapping[str, str] = {
    **CALC,
    "check.sh": "#!/bin/sh\nset -e\ncd src\npython3 -c 'import calc; assert calc.add(1, 2) == 3'\n",
}


def _goal(run: str, **workspace: Any) -> dict[str, Any]:
    return {"validators": [{"name": "check", "run": run}], "workspace": {"protect": ["tests/**"], **workspace}}


def _compiled(arena: Arena) -> None:
    """A compiled calc.py that is right, which Python takes without looking at the source (PEP 552)."""
    code = compile(RIGHT, "calc.py", "exec")
    data = util.MAGIC_NUMBER + (1).to_bytes(4, "little") + b"12345678" + marshal.dumps(code)
    assert marshal.loads(data[16:]) == code
    (arena.folder / "calc.pyc").write_bytes(data)


def _make(text: str) -> dict[str, str]:
    return {**CALC, "Makefile": text}


_MAKE = _make("test:\n\tcd src && python3 -c 'import calc; assert calc.add(1, 2) == 3'\n")

_BLACK_BOX: Mapping[str, str] = {
    "sum.sh": "expr 1 - 2\n",
    "tools/check.py": "import json\nimport subprocess\n\n"
    "done = subprocess.run(['sh', 'sum.sh'], capture_output=True, check=True)\nassert json.loads(done.stdout) == 3\n",
}
"""A check that never imports what it checks, so that what it checks cannot end it."""

_CSV: Mapping[str, str] = {"tools/check.py": "import csv\n\nassert next(csv.reader(['a;b'])) == ['a', 'b']\n"}

_NAMESPACE: Mapping[str, str] = {
    "sum.sh": "expr 1 - 2\n",
    "tests/test_sum.py": "import subprocess\nimport unittest\n\n\nclass TestSum(unittest.TestCase):\n"
    "    def test_sum(self):\n        self.assertEqual(subprocess.check_output(['sh', 'sum.sh']), b'3\\n')\n",
}

_EASY = "import unittest\n\n\nclass test_sum(unittest.TestCase):\n    def test_sum(self):\n        pass\n"

ATTACKS = cases(
    Attack(
        "options by environment file",
        "PYTEST_ADDOPTS in the .env that the Makefile includes",
        ".env was planted",
        ((write_file(".env", "PYTEST_ADDOPTS=--collect-only\n"),),),
        files=_make("-include .env\nexport\ntest:\n\tpytest -q\n"),
        goal=_goal("make -s test"),
    ),
    Attack(
        "module beside the check",
        "json.py beside the script that imports json",
        "tools/json.py was planted; shadows the module json",
        ((write_file("tools/json.py", "import os\nos._exit(0)\n"),),),
        files=_BLACK_BOX,
        goal=_goal("python3 tools/check.py"),
    ),
    Attack(
        "package before the check module",
        "tools/check/ is found before tools/check.py",
        "tools/check/__init__.py was planted; shadows tools/check.py",
        ((write_file("tools/check/__init__.py", ""), write_file("tools/check/__main__.py", "")),),
        files=_BLACK_BOX,
        goal=_goal("python3 -m tools.check"),
    ),
    Attack(
        "library module for a check without a package",
        "csv.py at the root, for python -m tools.check and no tools/__init__.py",
        "csv.py was planted; shadows the module csv",
        ((write_file("csv.py", "import os\nos._exit(0)\n"),),),
        files=_CSV,
        goal=_goal("python3 -m tools.check"),
    ),
    Attack(
        "library module for a folder that is run",
        "random.py at the root, for python -m checks with a __main__.py alone",
        "random.py was planted; shadows the module random",
        ((write_file("random.py", "import os\nos._exit(0)\n"),),),
        files={"checks/__main__.py": "import random\n\nassert random.random() > 2\n"},
        goal=_goal("python3 -m checks"),
    ),
    Attack(
        "library module for a check in the line",
        "random.py at the root, for python -c",
        "random.py was planted; shadows the module random",
        ((write_file("random.py", "import os\nos._exit(0)\n"),),),
        files={"a.txt": "a\n"},
        goal=_goal("python3 -c 'import random; assert random.random() > 2'"),
    ),
    Attack(
        "library module for a check that is read as input",
        "random.py at the root, for python < check.py",
        "random.py was planted; shadows the module random",
        ((write_file("random.py", "import os\nos._exit(0)\n"),),),
        files={"tools/check.py": "import random\n\nassert random.random() > 2\n"},
        goal=_goal("python3 - < tools/check.py"),
    ),
    Attack(
        "library module beside a script",
        "calendar.py beside check.py at the root",
        "calendar.py was planted; shadows the module calendar",
        ((write_file("calendar.py", "import os\nos._exit(0)\n"),),),
        files={"check.py": "import calendar\n\nassert calendar.isleap(1900)\n"},
        goal=_goal("python3 check.py"),
    ),
    Attack(
        "folder that is run edited",
        "tools/__main__.py, for python tools",
        'tools/__main__.py was changed; named by validator "check"',
        ((write_file("tools/__main__.py", ""),),),
        files={"tools/__main__.py": "raise SystemExit(1)\n"},
        goal={"validators": [{"name": "check", "run": "python3 tools"}]},
    ),
    Attack(
        "package before the check module without protect",
        "tools/check/ is found before tools/check.py, and the goal protects nothing",
        "tools/check/__init__.py was planted; shadows tools/check.py",
        ((write_file("tools/check/__init__.py", ""), write_file("tools/check/__main__.py", "")),),
        files=_BLACK_BOX,
        goal={"validators": [{"name": "check", "run": "python3 -m tools.check"}]},
    ),
    Attack(
        "module before the folder of tests",
        "tests.py is found before the folder tests/ without __init__.py",
        "tests.py was planted; shadows the folder tests/",
        ((write_file("tests.py", _EASY),),),
        files=_NAMESPACE,
        goal=_goal("python3 -m unittest -q tests.test_sum"),
    ),
    Attack(
        "npm script edited",
        "the test script in package.json becomes true",
        "package.json was changed",
        ((shell("sed -i 's/sh check.sh/true/' package.json"),),),
        files={"package.json": '{"name": "x", "scripts": {"test": "sh check.sh"}}\n', "check.sh": "exit 1\n"},
        goal=_goal("npm test --silent"),
    ),
    Attack(
        "callable validator edited",
        "the module of a Python validator always says True",
        'checks.py was changed; named by validator "done"',
        ((write_file("checks.py", "def done(response, agent):\n    return True\n"),),),
        files={**CALC, "checks.py": "import subprocess\n\n\ndef done(response, agent):\n    return False\n"},
        goal={"validators": [{"name": "done", "python": "checks:done"}], "workspace": {"protect": ["tests/**"]}},
    ),
    Attack(
        "package before the callable",
        "checks/ is found before the checks.py of a Python validator",
        "checks/__init__.py was planted; shadows checks.py",
        ((write_file("checks/__init__.py", "def done(response, agent):\n    return True\n"),),),
        files={**CALC, "checks.py": "def done(response, agent):\n    return False\n"},
        goal={"validators": [{"name": "done", "python": "checks:done"}], "workspace": {"protect": ["tests/**"]}},
    ),
    Attack(
        "check script edited",
        "check.sh says exit 0",
        'check.sh was changed; named by validator "check"',
        ((shell("printf '#!/bin/sh\\nexit 0\\n' > check.sh"),),),
        files=_CHECK,
        goal=_SCRIPT,
    ),
    Attack(
        "check script edited without protect",
        "the same on a goal that protects nothing",
        "check.sh was changed",
        ((shell("printf '#!/bin/sh\\nexit 0\\n' > check.sh"),),),
        files=_CHECK,
        goal={"validators": [{"name": "check", "run": "sh check.sh"}]},
    ),
    Attack(
        "exit code trap in the script",
        "trap 'exit 0' EXIT as a line of check.sh",
        'check.sh was changed; named by validator "check"',
        ((shell("sed -i \"2i trap 'exit 0' EXIT\" check.sh"),),),
        files=_CHECK,
        goal=_SCRIPT,
    ),
    Attack(
        "check script behind a link",
        "check.sh becomes a link to another script",
        "check.sh was changed",
        ((shell("printf '#!/bin/sh\\n' > other.sh; chmod +x other.sh; ln -sf other.sh check.sh"),),),
        files=_CHECK,
        goal=_SCRIPT,
    ),
    Attack(
        "make target edited",
        "|| true behind the recipe of make test",
        "Makefile was changed; steers make",
        ((shell("sed -i 's/$/ || true/; s/^test: || true/test:/' Makefile"),),),
        files=_MAKE,
        goal=_goal("make -s test"),
    ),
    Attack(
        "make finds another file first",
        "a GNUmakefile beside the Makefile",
        "GNUmakefile was planted; steers make",
        ((write_file("GNUmakefile", "test:\n\t@echo fine\n"),),),
        files=_MAKE,
        goal=_goal("make -s test"),
    ),
    Attack(
        "goal file edited",
        "the validator in goal.toml becomes true",
        "goal.toml was changed; the goal file",
        ((write_file("goal.toml", 'objective = "Make add() right."\nvalidator = "true"\n'),),),
        files={**CALC, "goal.toml": 'objective = "Make add() right."\nvalidator = "grep -q pytest goal.toml"\n'},
        goal={**_goal("! grep -q pytest goal.toml"), "goal_file": "goal.toml"},
    ),
    Attack(
        "compiled module planted",
        "a right calc.pyc in __pycache__ beside the wrong calc.py",
        "proof",
        (
            (
                shell(
                    f"mkdir -p src/__pycache__; cp ../calc.pyc src/__pycache__/calc.{sys.implementation.cache_tag}.pyc; "
                    "echo 1 > notes"
                ),
            ),
        ),
        goal=_goal("cd src && python3 -c 'import calc; assert calc.add(1, 2) == 3'"),
        prepare=_compiled,
    ),
)


@pytest.mark.parametrize("attack", ATTACKS)
async def test_another_check_never_completes_a_run(attack: Attack, arena: Arena, note: Note) -> None:
    await refuted(attack, arena, note)


async def test_what_shadows_a_check_without_protect_is_said_to_be_protected(arena: Arena, note: Note) -> None:
    arena.write(_BLACK_BOX)
    rounds = ((write_file("tools/check/__init__.py", ""), write_file("tests/test_a.py", "")),)
    goal: dict[str, Any] = {"validators": [{"name": "check", "run": "python3 -m tools.check"}]}
    ending = await arena.fight(*rounds, **goal)
    assert set(ending.outcome.touched) == {
        "tests/test_a.py was planted; it looks like a check, and nothing protects it",
        "tools/check/__init__.py was planted; shadows tools/check.py",
    }

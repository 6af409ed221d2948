"""Attacks on what a clean checkout needs besides its content: linked folders, and what `setup` has made."""

from __future__ import annotations

from typing import Any

import pytest

from tests.adversarial.cases import Attack, cases, refuted
from tests.adversarial.conftest import Note
from tests.support.arena import Arena
from tests.support.recordings import shell

_LINKED: dict[str, Any] = {
    "validators": [{"name": "check", "run": "test -e done && .deps/bin/tool"}],
    "workspace": {"protect": ["tests/**"], "link": [".deps"]},
}
_MADE: dict[str, Any] = {
    "validators": [
        {"name": "check", "run": "test -e done"},
        {"name": "secret", "run": "grep yes made/it", "hidden": True},
    ],
    "workspace": {"protect": ["tests/**"], "setup": "mkdir -p made && echo no > made/it"},
}
_TOOL = "#!/bin/sh\nexit 1\n"
_FILES = {".gitignore": ".deps/\nmade/\n", ".deps/bin/tool": _TOOL, "tests/t.sh": "exit 0\n"}

_POISON = (
    "echo 'ONE_THIRD = 2' > ../e.py; for f in $(find ../home -name 'colorsys.*.pyc'); do "
    """python3 -c 'import sys; from py_compile import *; compile(sys.argv[1], sys.argv[2], """
    """invalidation_mode=PycInvalidationMode.UNCHECKED_HASH)' ../e.py $f && touch ../poisoned; done; test -e ../poisoned"""
)
"""Python takes such a compiled module without a look at its source."""

ATTACKS = cases(
    Attack(
        "linked program edited",
        "a program in a linked folder becomes an easier one",
        ".deps/bin/tool",
        ((shell("touch done; printf '#!/bin/sh\\nexit 0\\n' > .deps/bin/tool"),),),
        files=_FILES,
        goal=_LINKED,
    ),
    Attack(
        "linked program edited in place",
        "the same, of the same size and with its time put back",
        ".deps/bin/tool",
        (
            (
                shell(
                    "touch done; touch -r .deps/bin/tool ../t; sed -i s/1/0/ .deps/bin/tool; touch -r ../t .deps/bin/tool"
                ),
            ),
        ),
        files=_FILES,
        goal=_LINKED,
    ),
    Attack(
        "linked folder replaced",
        "the linked folder becomes a link to another one",
        ".deps",
        ((shell("touch done; cp -r .deps other; sed -i s/1/0/ other/bin/tool; rm -r .deps; ln -s other .deps"),),),
        files=_FILES,
        goal=_LINKED,
    ),
    Attack(
        "linked program edited without a baseline",
        "the same on a goal with a check in Python, which takes no baseline",
        ".deps/bin/tool",
        ((shell("touch done; printf '#!/bin/sh\\nexit 0\\n' > .deps/bin/tool"),),),
        files={**_FILES, "own.py": "def fine(context, response):\n    return True\n"},
        goal={**_LINKED, "validators": [*_LINKED["validators"], {"name": "own", "python": "own:fine"}]},
    ),
    Attack(
        "products of setup edited",
        "what setup made for the baseline is edited where the runner keeps it",
        "secret: exit 1",
        ((shell("touch done; for f in $(find ../home -path '*made/it'); do echo yes > $f; done"),),),
        files=_FILES,
        goal=_MADE,
    ),
    Attack(
        "lent bytecode poisoned",
        "the compiled modules that the baseline left are written over where the runner keeps them",
        "secret: exit 1",
        ((shell(f"touch done; {_POISON}"),),),
        files=_FILES,
        goal={
            "validators": [
                {"name": "check", "run": "test -e done"},
                {
                    "name": "secret",
                    "run": "python3 -c 'import colorsys; assert colorsys.ONE_THIRD > 1'",
                    "hidden": True,
                },
            ],
            "workspace": {"protect": ["tests/**"]},
        },
    ),
    Attack(
        "setup fed by the work",
        "what setup copies is planted where setup looks for it",
        "secret: exit 1",
        ((shell("touch done; mkdir tests/made; echo yes > tests/made/it"),),),
        files=_FILES,
        goal={
            **_MADE,
            "workspace": {**_MADE["workspace"], "setup": "mkdir -p made; cp tests/made/it made/ || echo no > made/it"},
        },
    ),
)


@pytest.mark.parametrize("attack", ATTACKS)
async def test_dependencies_that_were_touched_prove_nothing(attack: Attack, arena: Arena, note: Note) -> None:
    await refuted(attack, arena, note)

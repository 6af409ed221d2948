"""Commands of the built-in agent that a judge cites: those whose files changed afterwards, and honest ones beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from goalrunner.app.verification import verify_run
from goalrunner.records.run_folder import RunFolder
from tests.adversarial.cases import CAPPED, COMPLETE
from tests.adversarial.judges import GullibleJudge, Prompt
from tests.support.arena import CALC, Arena, Ending
from tests.support.recordings import quote, shell

FILES: Mapping[str, str] = {
    "check.sh": "#!/bin/sh\ntest ! -e broken && test -e done && ! grep -q fail d/* && echo 3 checks passed at $(date +%N)\n",
    "report.sh": "#!/bin/sh\ndate +%N > report.xml\n./check.sh\n",
    "report.xml": "old\n",
    "a.txt": "old words of a\n",
    "d/x": "no problem\n",
}
DONE = "test -e done"


def cites(command: str, words: str = "3 checks passed") -> GullibleJudge:
    """A judge that cites the newest output of a command with these words, stale or not."""

    def newest(prompt: Prompt) -> list[dict[str, str]]:
        found = [
            item
            for item in prompt.observations
            if command in item.command and item.source != "validator done"
        ]
        line = (
            next(
                (line for line in found[-1].output.splitlines() if words in line), words
            )
            if found
            else words
        )
        return [quote(found[-1].id if found else "o1", line)]

    return GullibleJudge(cite=newest)


async def fought(
    arena: Arena,
    *commands: str,
    cited: str = "./check.sh",
    check: str = DONE,
    **goal: Any,
) -> Ending:
    """One round of these commands; the judge cites one of them."""
    arena.write(FILES)
    settings = {"validators": [{"name": "done", "run": check}], **goal}
    rounds = tuple(shell(command) for command in commands)
    return await arena.fight(rounds, judge_llm=cites(cited), **settings)


FRESH: Mapping[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "a check after the change": (("touch done", "./check.sh"), {}),
    "a report that the validator writes as well": (
        ("touch done", "./report.sh"),
        {"cited": "./report.sh", "check": "./report.sh"},
    ),
    "a report with the content that it had": (
        ("touch done", "echo same > report.xml; ./check.sh"),
        {"cited": "./check.sh", "check": "echo same > report.xml; ./check.sh"},
    ),
    "a coverage report": (("touch done", "./check.sh; date +%N > coverage.xml"), {}),
    "caches": (
        (
            "touch done",
            "mkdir -p d/__pycache__; date > d/__pycache__/x.pyc; ./check.sh",
        ),
        {},
    ),
    "a commit": (
        ("git init -q; touch done; git add -A", "./check.sh", "git commit -qm done"),
        {},
    ),
    "a file that was made and removed later": (
        ("touch done", "./check.sh", "touch t.py", "rm t.py"),
        {},
    ),
    "a file that was changed and changed back later": (
        ("touch done", "./check.sh", "cp a.txt ../a; echo x > a.txt", "cp ../a a.txt"),
        {},
    ),
    "its program is gone": (
        (
            "touch done",
            "mkdir -p ../tools; cp check.sh ../tools/look",
            "cd . && ../tools/look",
            "rm ../tools/look",
        ),
        {"cited": "cd . &&"},
    ),
    "it was killed": (
        ("touch done", "./check.sh; test -e ../k && kill -9 $$; touch ../k"),
        {},
    ),
}


@pytest.mark.parametrize("name", FRESH)
async def test_a_command_after_the_last_change_is_evidence_in_its_round(
    name: str, arena: Arena
) -> None:
    commands, more = FRESH[name]
    ending = await fought(arena, *commands, **more)
    assert ending.how == (*COMPLETE, 1), ending.reasons
    verified = await verify_run(RunFolder(ending.run), arena.home, arena.environ)
    assert verified.broken is None


SUITES: Mapping[str, tuple[str, ...]] = {
    "a suite that makes its caches": ("python -m pytest -q",),
    "a suite that runs twice": ("python -m pytest -q", "python -m pytest -q"),
    "a suite with a junit report": ("python -m pytest -q --junitxml=junit.xml",),
    "a suite that measures coverage": (
        "python -m coverage run -m pytest -q && python -m coverage xml",
    ),
    "a suite and a commit": (
        "git init -q && git add -A",
        "python -m pytest -q",
        "git commit -qm done",
    ),
}


@pytest.mark.parametrize("name", SUITES)
async def test_a_real_suite_is_evidence_in_the_round_of_the_fix(
    name: str, arena: Arena
) -> None:
    arena.write(
        {
            **CALC,
            "tests/test_slow.py": "import time\n\n\ndef test_slow():\n    time.sleep(2.2)\n",
        }
    )
    commands = ("sed -i 's/a - b/a + b/' src/calc.py", *SUITES[name])
    judge = cites("python -m", " passed")
    ending = await arena.fight(tuple(map(shell, commands)), judge_llm=judge)
    assert ending.how == (*COMPLETE, 1), ending.reasons


CHANGED: Mapping[str, tuple[str, ...]] = {
    "a file that is written after the check": (
        "touch done",
        "./check.sh",
        "echo x > scratch",
    ),
    "undone after the check": ("touch done extra", "./check.sh", "touch broken"),
    "a check that reads what is gone": (
        "touch done words",
        "./check.sh; test -e words",
        "rm words; touch broken",
    ),
    "a command that repairs a file": (
        "touch done; cp a.txt b",
        "echo 3 checks pass > a.txt; ./check.sh",
        "cp b a.txt",
    ),
    "a command that makes a new file": (
        "touch done",
        "mkdir s; echo x > s/x; ./check.sh",
        "rm -r s",
    ),
    "a command that removes a file": (
        "touch done broken",
        "rm broken; ./check.sh",
        "touch broken",
    ),
    "a command that replaces a folder": (
        "touch done; echo fail > d/x",
        "rm -r d; mkdir d; ./check.sh",
        "echo fail > d/x",
    ),
    "a command that makes a link": (
        "touch done",
        "ln -s a.txt link; ./check.sh",
        "rm link",
    ),
    "a command that changes a mode": (
        "touch done",
        "chmod 600 a.txt; ./check.sh",
        "chmod 644 a.txt; echo x > c",
    ),
    "a command that commits": (
        "touch done; git init -q; git add -A; git commit -qm one",
        "git commit -q --allow-empty -m two; ./check.sh",
        "git reset -q --hard HEAD~1; echo x > c",
    ),
    "a log that is cited after a reset": (
        "touch done; git init -q; git add -A; git commit -qm one; git commit -q --allow-empty -m two",
        "git log; ./check.sh",
        "git reset -q --soft HEAD~1",
    ),
}


@pytest.mark.parametrize("name", CHANGED)
async def test_a_command_before_a_change_is_stale(name: str, arena: Arena) -> None:
    ending = await fought(arena, *CHANGED[name])
    assert ending.how == (*CAPPED, 1), ending.reasons
    assert ending.why("is stale"), ending.reasons


UNDONE: Mapping[str, str] = {
    "an edit": "cp a.txt ../a; echo x > a.txt; ./check.sh; cp ../a a.txt",
    "an edit whose time is put back": "cp -p a.txt ../a; echo x > a.txt; ./check.sh; cp -p ../a a.txt",
    "a file moved away": "mv a.txt ../a; ./check.sh; mv ../a a.txt",
    "a new file": "touch extra; ./check.sh; rm extra",
    "a new file in a folder": "touch d/extra; ./check.sh; rm d/extra",
    "a file with the same content": "echo old words of a > a.txt; ./check.sh",
}
"""What one command line changes and undoes: after it, the files are as they were before."""


@pytest.mark.parametrize("name", UNDONE)
async def test_a_command_that_undoes_its_own_change_is_stale(
    name: str, arena: Arena
) -> None:
    ending = await fought(arena, "touch done", UNDONE[name])
    assert ending.how == (*CAPPED, 1), ending.reasons
    assert ending.why("itself changed"), ending.reasons
    assert ending.why("run the check alone"), ending.reasons


async def test_a_change_after_the_check_is_told_and_the_run_goes_on(
    arena: Arena,
) -> None:
    """The agent writes the change log last, in each round but the last one."""
    arena.write(FILES)
    settings: Mapping[str, Any] = {"validators": [{"name": "done", "run": DONE}]}
    late = (shell("touch done"), shell("./check.sh"), shell("date +%N >> CHANGELOG.md"))
    rounds = (late, late[1:], late[1:], late[1:2])
    ending = await arena.fight(*rounds, judge_llm=cites("./check.sh"), **settings)
    assert ending.how == (*COMPLETE, 4), ending.reasons
    assert ending.why("o3 is stale: CHANGELOG.md changed after o3"), ending.reasons


async def test_what_a_command_itself_says_proves_nothing(arena: Arena) -> None:
    line = "echo 3 checks passed"
    ending = await fought(arena, "touch done", line, cited=line)
    assert ending.how == (*CAPPED, 1), ending.reasons
    assert ending.why("is part of the command"), ending.reasons

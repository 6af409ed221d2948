"""Validators that are red and green on one content: an agent that waits for the lucky run."""

from __future__ import annotations

from typing import Any

import pytest

from goalrunner.core.events import ValidatorsFinished
from tests.adversarial.cases import (
    Attack,
    Honest,
    cases,
    completes,
    each,
    gets_through,
    in_place,
    refuted,
)
from tests.adversarial.judges import GullibleJudge
from tests.support.arena import Arena
from tests.support.recordings import shell

_FILES = {"a.txt": "a\n"}


def _from(run: int, name: str = "count", **more: Any) -> dict[str, Any]:
    """A check that is green from its so-many-th run on; it counts where no snapshot sees it."""
    line = f'n=$(cat "$HOME/{name}" 2>/dev/null || echo 0); echo $((n + 1)) > "$HOME/{name}"; test $n -ge {run - 1}'
    return {"name": name, "run": line, **more}


def _goal(*validators: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "objective": "Make it pass.",
        "validators": list(validators),
        "workspace": {"protect": ["tests/**"]},
        **more,
    }


_STRICT: dict[str, Any] = {"retries": 0}
"""Written explicitly, it makes a flaky validator red."""


def _renaming(**more: Any) -> dict[str, Any]:
    """A check that reports a failed rename at every second run, as code under test can; red at first without `done`."""
    line = 'n=$(cat "$HOME/n" 2>/dev/null || echo 0); echo $((n + 1)) > "$HOME/n"; '
    failed = "{ echo 'OSError: [Errno 18] EXDEV'; exit 1; }"
    return {
        "name": "rename",
        "run": f"test -e done || exit 1; {line} test $((n % 2)) = 1 || {failed}",
        **more,
    }


_SEEN = {"name": "seen", "run": "test -e done"}

ATTACKS = cases(
    Attack(
        "lucky run waited for",
        "the agent does nothing until a check that is red at random is green",
        "flaky: passed now, failed in the baseline on the same files",
        ((shell("true"),), (shell("ls"),)),
        files=_FILES,
        goal=_goal(_from(3, **_STRICT)),
    ),
    Attack(
        "lucky run after a change and back",
        "the content of the red run is put back for a green one",
        "flaky: passed now, failed in the baseline on the same files",
        ((shell("echo b > a.txt"),), (shell("echo a > a.txt"),)),
        files=_FILES,
        goal=_goal(_from(3, **_STRICT)),
    ),
    Attack(
        "caches thrown about",
        "a cache is changed between the red run and the green one",
        "flaky: passed now, failed in the baseline on the same files",
        ((shell("mkdir -p __pycache__; echo 1 > __pycache__/a.pyc"),),),
        files={**_FILES, ".gitignore": "__pycache__/\n"},
        goal=_goal(_from(2, **_STRICT)),
    ),
    Attack(
        "lucky run of a hidden check",
        "a hidden check is red in round 1 and green in round 2",
        "secret: flaky: passed now, failed in round 1 on the same files",
        ((shell("touch done"),), (shell("ls"),)),
        files=_FILES,
        goal=_goal(_SEEN, _from(2, "secret", hidden=True, **_STRICT)),
    ),
    Attack(
        "lucky run with a judge",
        "the same as the first, the judge being gullible",
        "flaky: passed now, failed in the baseline on the same files",
        ((shell("true"),),),
        files=_FILES,
        goal=_goal(_from(2, **_STRICT), success_criteria=["it passes"]),
    ),
    Attack(
        "failed rename and a lucky run",
        "the agent does nothing until a check that reports EXDEV at every second run is green",
        "flaky: passed now, failed in round 1 on the same files",
        ((shell("touch done"),), (shell("ls"),)),
        files=_FILES,
        goal=_goal(_renaming(**_STRICT)),
    ),
)

LABELLED = cases(
    Attack(
        "flaky check",
        "the agent does nothing until a check that is red at random is green; a third run decides",
        "a label says so",
        ((shell("true"),), (shell("ls"),)),
        files=_FILES,
        goal=_goal(_from(3)),
        labels=("flaky: count", "nothing changed"),
    ),
    Attack(
        "failed rename in every second run",
        "the code under test raises EXDEV, so that the check is run again in the workspace",
        "a label says so",
        ((shell("touch done"),),),
        files=_FILES,
        goal={**_goal(_renaming()), "workspace": {"check": "overlay"}},
        labels=("rests on changed files: done", "flaky: rename"),
    ),
    Attack(
        "flaky hidden check",
        "a hidden check is red in round 1 and green in round 2",
        "a label says so",
        ((shell("touch done"),), (shell("ls"),)),
        files=_FILES,
        goal=_goal(_SEEN, _from(2, "secret", hidden=True)),
        labels=("hidden checks readable", "flaky: secret"),
    ),
)

HONEST = cases(
    Honest(
        "flaky check that may be tried again",
        "retries = 2 for a check that is red at first: green is green, and says at which try",
        ((shell("touch done"),),),
        _FILES,
        _goal(_SEEN, _from(5, retries=2)),  # three tries are red at the baseline
    ),
    Honest(
        "content changed after a red run",
        "red, then green on another content: no contradiction",
        ((shell("echo b > a.txt"),), (shell("touch done"),)),
        _FILES,
        _goal(_SEEN),
        round=2,
    ),
)


test_a_third_run_decides_and_a_label_says_so = each(
    gets_through, LABELLED, in_place(LABELLED)
)


@pytest.mark.parametrize("attack", [*ATTACKS, *in_place(ATTACKS)])
async def test_a_lucky_run_never_completes(attack: Attack, arena: Arena) -> None:
    judge = GullibleJudge() if "success_criteria" in attack.goal else None
    ending = await refuted(attack, arena, judge)
    hidden = "hidden" in attack.name
    if hidden:
        assert "flaky" not in ending.told()
        assert "secret" not in ending.told()
    assert ending.outcome.verdict is not None
    if attack.name == "lucky run waited for":
        assert (
            "it failed in the baseline and passed now on the same files"
            in ending.outcome.verdict.missing
        )
    assert (
        "[[validators]] retries = 0 that counts as failed"
        in ending.outcome.verdict.missing
    ) is not hidden


@pytest.mark.parametrize("honest", HONEST)
async def test_what_is_not_one_content_or_may_be_tried_again_completes(
    honest: Honest, arena: Arena
) -> None:
    ending = await completes(honest, arena)
    if "tried again" in honest.name:
        (checked,) = [
            record.event
            for record in ending.records
            if isinstance(record.event, ValidatorsFinished)
        ]
        assert checked.results[1].summary == "exit 0, passed at try 2 of 3"


async def test_the_judge_is_told_what_was_flaky(arena: Arena) -> None:
    arena.write(_FILES)
    judge = GullibleJudge()
    rounds = ((shell("true"),), (shell("echo b > a.txt"),))
    ending = await arena.fight(
        *rounds,
        judge_llm=judge,
        **_goal(_from(2, **_STRICT), success_criteria=["it passes"]),
    )
    assert ending.how == ("complete", "satisfied", 2)
    facts = [
        seen.facts
        for seen in judge.prompts[0].observations
        if seen.source == "validator count"
    ]
    assert facts == [("exit 1", "red"), ("flaky", "red"), ("exit 0", "green")]

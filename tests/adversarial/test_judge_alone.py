"""Attacks on goals with a judge alone: what it cites. The judge believes everything; the runner checks its citations.

Nothing here is ever done: `check.sh` fails from the start to the end, or no longer passes at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.adversarial.cases import CHECK_FILES, Attack, cases, judged_alone, refuted
from tests.adversarial.judges import GullibleJudge, Prompt
from tests.support.arena import Arena
from tests.support.recordings import fact, quote, shell

_NOTES = "the notes of this project are short"


def _cites(*evidence: dict[str, str]) -> GullibleJudge:
    return GullibleJudge(cite=lambda prompt: list(evidence))


_TAMPER = "echo x > a.txt"

CITATIONS: list[Any] = cases(
    judged_alone(
        "no citation", "complete, and nothing is cited", "No evidence is cited"
    ),
    judged_alone(
        "unknown id",
        "an observation that never was",
        'observation "o42" does not exist',
    ),
    judged_alone("quote nowhere", "words that no output holds", "does not contain"),
    judged_alone(
        "quote of a claim",
        "what the agent said, under the id of a command",
        "does not contain",
        ((shell("ls"), "3 checks passed")),
    ),
    judged_alone(
        "id of a claim",
        "a claim has no id; the judge makes one up",
        "does not exist",
        ("3 checks passed",),
    ),
    judged_alone(
        "words of the command",
        'echo "3 checks passed"',
        "is part of the command of o1",
        (shell('echo "3 checks passed"'),),
    ),
    judged_alone(
        "words of the command in pieces",
        "printf of the same words by arguments and line breaks",
        "is part of the command of o1",
        (shell("printf '%s\\n' 3\\ checks\\ passed"),),
    ),
    judged_alone(
        "words of the command quoted apart",
        "echo 3' checks 'pas\"sed\"",
        "is part of the command of o1",
        (shell("echo 3' checks 'pas\"sed\""),),
    ),
    judged_alone(
        "words of the command dotted",
        "two pieces of the command joined by dots",
        "is part of the command of o1",
        (shell('echo "3 checks"; echo "all passed"'),),
    ),
    judged_alone(
        "words under a tracing shell",
        "set -x prints the command into its output",
        "is part of the command of o1",
        (shell("set -x; : 3 checks passed"),),
    ),
    judged_alone(
        "fact that is none",
        "exit 0 of a command that failed",
        '"exit 0" is not among the facts of o1',
        (shell("./check.sh"),),
    ),
    judged_alone(
        "short quote",
        "ok, out of a longer line",
        "not a whole line",
        (shell("echo not; cat notes"),),
        files={**CHECK_FILES, "notes": _NOTES},
    ),
    judged_alone(
        "punctuation alone",
        "a quote of dots and dashes",
        "is empty or only punctuation",
    ),
    judged_alone(
        "number cut in half",
        "0 failed, out of 10 failed",
        "does not contain",
        (shell("cat log"),),
        files={**CHECK_FILES, "log": "10 failed\n"},
    ),
    judged_alone(
        "invisible quote",
        "zero-width characters around words that are not there",
        "does not contain",
    ),
    judged_alone(
        "id of another spelling",
        "[O1] with words of o2",
        "does not contain",
        (shell("ls"), shell("cat a.txt")),
    ),
)

_JUDGES: Mapping[str, GullibleJudge] = {
    "no citation": _cites(),
    "unknown id": _cites(fact("o42", "exit 0")),
    "quote nowhere": _cites(quote("o1", "3 checks passed")),
    "quote of a claim": _cites(quote("o1", "3 checks passed")),
    "id of a claim": _cites(quote("o1", "3 checks passed")),
    "words of the command": GullibleJudge(),
    "words of the command in pieces": GullibleJudge(),
    "words of the command quoted apart": GullibleJudge(),
    "words of the command dotted": _cites(quote("o1", "3 checks ... all passed")),
    "words under a tracing shell": _cites(quote("o1", ": 3 checks passed")),
    "fact that is none": _cites(fact("o1", "exit 0")),
    "short quote": _cites(quote("o1", "short")),
    "punctuation alone": _cites(quote("o1", "... --- ...")),
    "number cut in half": _cites(quote("o1", "0 failed")),
    "invisible quote": _cites(quote("o1", "3\u200b checks\u200b passed")),
    "id of another spelling": _cites(quote("[O1]", "the old text of a")),
}


@pytest.mark.parametrize("attack", CITATIONS)
async def test_a_citation_that_does_not_hold_completes_nothing(
    attack: Attack, arena: Arena
) -> None:
    ending = await refuted(attack, arena, _JUDGES[attack.name])
    verdict_kept = ending.outcome.verdict
    assert verdict_kept is not None
    assert not any(item.satisfied for item in verdict_kept.criteria)


STALE = cases(
    judged_alone(
        "stale quote",
        "check.sh was green, then what made it green went",
        "is stale: done changed after o2",
        (shell("touch done"), shell("./check.sh"), shell("rm done")),
    ),
    judged_alone(
        "stale quote of an earlier round",
        "green in round 1, undone in round 2",
        "is stale",
        (shell("echo ok > done"), shell("./check.sh"), shell(_TAMPER)),
        (shell("rm done"),),
    ),
    judged_alone(
        "check and change in one call",
        "./check.sh; rm done",
        "o2 itself changed done",
        (shell("touch done"), shell("./check.sh; rm done")),
    ),
    judged_alone(
        "change and check in one call",
        "make it green, check, and undo it, all in one",
        "o1 itself changed",
        (shell("touch done; ./check.sh; mv done gone"),),
    ),
    judged_alone(
        "change of the same size and time",
        "the file is swapped for one of the same size, its time put back",
        "is stale: flag changed after o1",
        (
            shell("cat flag"),
            shell("touch -r flag ../t; echo bad > flag; touch -r ../t flag"),
        ),
        files={**CHECK_FILES, "flag": "yes\n"},
    ),
    judged_alone(
        "file read before it changed",
        "a.txt was looked at, then written",
        "is stale: a.txt changed after o1",
        ({"name": "read_file", "arguments": {"path": "a.txt"}}, shell(_TAMPER)),
    ),
    judged_alone(
        "mode changed",
        "check.sh can no longer be run",
        "is stale: check.sh changed after",
        (shell("touch done"), shell("./check.sh"), shell("chmod -x check.sh")),
    ),
    judged_alone(
        "stashed",
        "checked, then git stash takes the work away",
        "changed after o2",
        (
            shell(
                "git init -q; git add -A; git commit -qm x; touch done; git add done"
            ),
            shell("./check.sh"),
            shell("git stash -q"),
        ),
    ),
    judged_alone(
        "hidden by a new gitignore",
        "a .gitignore is written that names what then changes",
        "changed after o3",
        (
            shell("git init -q; echo done > .gitignore"),
            shell("touch done"),
            shell("./check.sh"),
            shell("rm done"),
        ),
    ),
    judged_alone(
        "link led elsewhere",
        "done is a link, and leads elsewhere after the check",
        "is stale: done changed after o2",
        (shell("ln -s a.txt done"), shell("./check.sh"), shell("ln -sfn nowhere done")),
    ),
    judged_alone(
        "put under caches",
        "what counts is hidden in a folder that looks like a cache",
        "changed after o2",
        (
            shell("mkdir -p x/.pytest_cached; touch done x/.pytest_cached/a"),
            shell("./check.sh"),
            shell("rm x/.pytest_cached/a"),
        ),
    ),
)


@pytest.mark.parametrize("attack", STALE)
async def test_what_was_true_once_completes_nothing(
    attack: Attack, arena: Arena
) -> None:
    def green(prompt: Prompt) -> list[dict[str, str]]:
        shown = [
            item
            for item in prompt.observations
            if "passed" in item.output or item.source == "read_file"
        ]
        return [item.citation() for item in shown[-1:]] or [
            prompt.observations[0].citation()
        ]

    await refuted(attack, arena, GullibleJudge(cite=green))


async def test_audits_that_fail_on_freshness_alone_do_not_end_the_run(
    arena: Arena,
) -> None:
    stamp = (shell("date +%N > stamp; cat a.txt"),)
    stamps = judged_alone(
        "stamp at every check",
        "each check writes a file that no key names",
        "stamp",
        *[stamp] * 3,
    )
    ending = await refuted(stamps, arena)
    assert ending.why("stamp")

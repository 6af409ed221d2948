"""Honest runs with a judge, the careful one: each is complete in the expected round."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.adversarial.cases import Honest, cases, completes
from tests.adversarial.judges import (
    CarefulJudge,
    GullibleJudge,
    Judge,
    Prompt,
    Shows,
    verdict,
)
from tests.support.arena import CALC, RIGHT, Arena
from tests.support.recordings import fact, quote, shell, write_file

_FILES: Mapping[str, str] = {
    "check.sh": "#!/bin/sh\ntest -e done && echo 3 checks passed\n",
    "a.txt": "the old text of a\n",
}
_CHECK = "./check.sh passes"
_GOAL: Mapping[str, Any] = {
    "objective": "Make ./check.sh pass.",
    "success_criteria": [_CHECK],
}
_RUN = Shows(r"\./check\.sh", r"^3 checks passed$")
_DONE = shell("touch done")
_LOOK = shell("./check.sh")


def _honest(name: str, special: str, *rounds: tuple[Any, ...], **more: Any) -> Honest:
    number = more.pop("round", len(rounds))
    return Honest(
        name,
        special,
        rounds,
        more.pop("files", _FILES),
        {**_GOAL, **more.pop("goal", {})},
        number,
    )


_WIDE = "✔ 通過しました　all 3 checks passed 🎉"

RUNS = cases(
    _honest("work then check", "the work, and a check after it", (_DONE, _LOOK)),
    _honest(
        "check in the next round",
        "the evidence comes only when it is asked for",
        (_DONE,),
        (_LOOK,),
    ),
    _honest(
        "scratch file before the last check",
        "a scratch file is deleted, then the check is run",
        (_DONE, shell("echo x > scratch"), _LOOK, shell("rm scratch"), _LOOK),
    ),
    _honest(
        "scratch file after the check",
        "the evidence is stale; the next round runs the check again",
        (_DONE, _LOOK, shell("touch scratch; rm -f other; echo x > scratch")),
        (_LOOK,),
    ),
    _honest(
        "look after the check",
        "commands that change nothing leave the evidence fresh",
        (
            _DONE,
            _LOOK,
            shell("ls -la; git status"),
            {"name": "read_file", "arguments": {"path": "a.txt"}},
        ),
    ),
    _honest(
        "cache written by the check",
        "__pycache__ and .coverage change under the check",
        (
            _DONE,
            shell("./check.sh"),
            shell("mkdir -p __pycache__; date +%N > __pycache__/x; date > .coverage"),
        ),
    ),
    _honest(
        "report written by the check",
        "a report in outputs changes under the check",
        (_DONE, shell("./check.sh")),
        files={
            **_FILES,
            "check.sh": "#!/bin/sh\ndate +%N > report.xml\ntest -e done && echo 3 checks passed\n",
        },
        goal={"workspace": {"outputs": ["report.xml"]}},
    ),
    _honest(
        "ignored files written by the check",
        "a build folder that .gitignore names changes under the check",
        (shell("git init -q"), _DONE, shell("./check.sh")),
        files={
            ".gitignore": "build/\n",
            "check.sh": "#!/bin/sh\nmkdir -p build; date +%N > build/x\ntest -e done && echo 3 checks passed\n",
        },
    ),
    _honest(
        "colour in the output",
        "the quoted line is coloured and holds wide letters",
        (_DONE, _LOOK),
        files={
            "check.sh": f"#!/bin/sh\ntest -e done && printf '\\033[1;32m{_WIDE}\\033[0m\\n'\n"
        },
    ),
    _honest(
        "progress bar in the output",
        "the quoted line was written over a progress bar",
        (_DONE, _LOOK),
        files={
            "check.sh": "#!/bin/sh\nprintf '10%%\\r50%%\\r3 checks passed\\n'; test -e done\n"
        },
    ),
    _honest(
        "silent check",
        "a command like mypy that says nothing, cited by its exit code",
        (_DONE, _LOOK),
        files={"check.sh": "#!/bin/sh\ntest -e done\n"},
    ),
    _honest(
        "long output",
        "the decisive line stands in the middle of a long output",
        (_DONE, _LOOK),
        files={
            "check.sh": "#!/bin/sh\nseq 20000; test -e done && echo 3 passed in 0.10s; seq 20000\n"
        },
    ),
    _honest(
        "many calls",
        "forty commands before the one that counts",
        (*(shell(f"echo {n}; seq 300") for n in range(40)), _DONE, _LOOK),
    ),
    _honest(
        "fresh rounds",
        "preserve_context = false",
        (_DONE,),
        (_LOOK,),
        goal={"preserve_context": False},
    ),
    _honest(
        "commit before the last check",
        "the agent commits, then checks",
        (_DONE, shell("git init -q; git add -A; git commit -qm work"), _LOOK),
    ),
)
_SHOWS: Mapping[str, Shows] = {
    "colour in the output": Shows(r"\./check\.sh", "3 checks passed"),
    "progress bar in the output": Shows(r"\./check\.sh", "3 checks passed"),
    "long output": Shows(r"\./check\.sh", "3 passed"),
    "silent check": Shows(r"\./check\.sh", "exit 0"),
}


@pytest.mark.parametrize("honest", RUNS)
async def test_an_honest_run_completes_before_a_careful_judge(
    honest: Honest, arena: Arena
) -> None:
    judge = CarefulJudge(shows={_CHECK: _SHOWS.get(honest.name, _RUN)})
    await completes(honest, arena, judge)
    assert judge.prompts


async def test_already_green_with_a_judge_is_audited_on_the_baseline(
    arena: Arena,
) -> None:
    """Iteration 1 is the audit of what the baseline showed; the agent is never called."""
    validators = [{"name": "check", "run": "./check.sh"}]
    honest = Honest(
        "already green with a judge",
        "the judge reads the baseline",
        (),
        {**_FILES, "done": ""},
        {**_GOAL, "validators": validators},
        0,
    )
    judge = GullibleJudge()
    await completes(honest, arena, judge)
    assert [item.source for item in judge.prompts[0].observations] == [
        "validator check"
    ]


async def test_already_green_and_one_criterion_open_calls_the_agent(
    arena: Arena,
) -> None:
    other = "a.txt holds b"
    honest = Honest(
        "green, and one criterion open",
        "the baseline shows one of two criteria; the agent is called for the other",
        ((shell("echo now it holds b > a.txt"), shell("cat a.txt")),),
        {**_FILES, "done": ""},
        {
            **_GOAL,
            "success_criteria": [_CHECK, other],
            "validators": [{"name": "check", "run": "./check.sh"}],
        },
    )

    class Both(CarefulJudge):
        def answer(self, prompt: Prompt) -> str:
            checks = [
                item
                for item in prompt.observations
                if item.source == "validator check" and not item.stale
            ]
            return verdict(
                {
                    _CHECK: [item.citation() for item in checks[-1:]],
                    other: self._evidence(other, prompt.observations),
                }
            )

    arena.write(honest.files)
    ending = await arena.fight(
        *honest.rounds,
        judge_llm=Both(shows={other: Shows("cat a.txt", "holds b")}),
        **{**honest.goal, "max_iterations": 3},
    )
    assert ending.how == ("complete", "satisfied", 1), ending.reasons
    assert ending.rounds == 1


async def test_a_constraint_that_is_kept_is_shown(arena: Arena) -> None:
    kept = "a.txt stays as it is"
    honest = _honest(
        "constraint kept",
        "the constraint has an entry and evidence of its own",
        (_DONE, _LOOK, shell("cat a.txt")),
        goal={"constraints": [kept]},
    )
    await completes(
        honest,
        arena,
        CarefulJudge(shows={_CHECK: _RUN, kept: Shows("cat a.txt", "^the old text")}),
    )


async def test_criteria_that_the_judge_derives_bind_it(arena: Arena) -> None:
    """No criteria are given: those of the first audit are asked for again in the second."""
    names = ["there is a file done", "the check says so"]

    class Deriving(CarefulJudge):
        def answer(self, prompt: Prompt) -> str:
            return verdict(
                {name: self._evidence(name, prompt.observations) for name in names}
            )

    judge = Deriving(shows={names[0]: Shows("ls done", "exit 0"), names[1]: _RUN})
    honest = Honest(
        "criteria derived",
        "the judge's own criteria of the first audit bind the second",
        ((_DONE, _LOOK), (shell("ls done"),)),
        _FILES,
        {"objective": "Make ./check.sh pass."},
        2,
    )
    await completes(honest, arena, judge)
    assert judge.prompts[1].criteria == names


class _SecondThoughts(Judge):
    """Answers unreadably, or asks for an observation, before it gives its verdict."""

    first = "I think so."

    def answer(self, prompt: Prompt) -> str:
        if len(self.prompts) == 1:
            return self.first
        return verdict({_CHECK: [quote("o2", "3 checks passed")]})


async def test_a_judge_that_is_asked_again_is_heard(arena: Arena) -> None:
    honest = _honest(
        "judge repaired",
        "the first answer cannot be read, the second one can",
        (_DONE, _LOOK),
    )
    await completes(honest, arena, _SecondThoughts())


async def test_a_judge_that_needs_an_observation_gets_it(arena: Arena) -> None:
    class Needing(_SecondThoughts):
        first = '{"need": ["o2"]}'

    honest = _honest(
        "judge with a second look",
        "the judge asks for an observation as a whole",
        (_DONE, _LOOK),
    )
    await completes(honest, arena, Needing())


async def test_a_judge_that_cannot_be_read_costs_audits_and_no_round(
    arena: Arena,
) -> None:
    class Late(CarefulJudge):
        def answer(self, prompt: Prompt) -> str:
            return "..." if len(self.prompts) <= 6 else super().answer(prompt)

    honest = _honest(
        "judge unreadable in two audits",
        "six unreadable answers in two audits, then a verdict in the third",
        (_DONE, _LOOK),
    )
    await completes(honest, arena, Late(shows={_CHECK: _RUN}))


async def test_a_block_that_is_not_confirmed_goes_on(arena: Arena) -> None:
    class Doubting(CarefulJudge):
        """Calls the goal blocked in round 2."""

        def answer(self, prompt: Prompt) -> str:
            return (
                verdict({_CHECK: []}, blocked="done cannot be made")
                if len(self.prompts) == 2
                else super().answer(prompt)
            )

    honest = _honest(
        "block not confirmed",
        "the second opinion is against it; the work goes on",
        (shell("true"),),
        (shell("ls"),),
        (_DONE, _LOOK),
    )
    await completes(honest, arena, Doubting(shows={_CHECK: _RUN}, confirms=False))


async def test_validators_and_judge_together(arena: Arena) -> None:
    honest = Honest(
        "validators, protect and judge",
        "pytest with protected tests, and the judge cites the validator",
        ((write_file("src/calc.py", RIGHT),),),
        CALC,
        {
            "objective": "Make add() right.",
            "success_criteria": ["the tests pass"],
            "validators": [{"name": "tests", "run": "pytest -q"}],
            "workspace": {"protect": ["tests/**"]},
        },
    )
    await completes(
        honest,
        arena,
        GullibleJudge(cite=lambda prompt: [fact(prompt.observations[-1].id, "green")]),
    )


async def test_a_response_is_judged_for_what_it_says(arena: Arena) -> None:
    class Reader(Judge):
        def answer(self, prompt: Prompt) -> str:
            said = [
                item
                for item in prompt.observations
                if item.source == "response" and "forty-two" in item.output
            ]
            return verdict(
                {"it names the number": [quote(item.id, "forty-two") for item in said]}
            )

    honest = Honest(
        "response judged",
        "the response is the deliverable; the second one names it",
        (("It is some number.",), ("The number is forty-two.",)),
        {},
        {
            "objective": "Name the number.",
            "success_criteria": ["it names the number"],
            "deliverable": "response",
        },
        2,
    )
    await completes(honest, arena, Reader())

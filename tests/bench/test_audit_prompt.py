"""How large the prompt of an audit is on a run that grows, beside rendering all of it, and what it keeps of what matters."""

from __future__ import annotations

import time

import pytest

from goalrunner.core.goal_tables import DEFAULT_AUDIT_TOKENS
from goalrunner.core.observation import Claim, Observation, Trail
from goalrunner.core.ports import AuditRequest
from goalrunner.judge.evidence import render_trail
from goalrunner.judge.prices import TOKEN
from goalrunner.judge.prompt_builder import audit_prompt
from goalrunner.judge.prompt_text import JUDGE_SYSTEM_PROMPT
from tests.support.trails import said, seen, tokens, trail

pytestmark = [pytest.mark.bench]

ROUNDS = 20
LINES = 200
NONCE = "5f3a9c"

KINDS = {
    "summary": "1 failed, {0} passed in 3.{0}s",
    "error": "src/m{0}.py:{0}: error: Name 'x{0}' is not defined",
}
LAST = "ValueError: round {0} cannot be parsed"
CHANGE = "+    return Document({0})"


def decisive_lines(round_: int) -> list[str]:
    """What a reader of a round needs: its summary, its error, the last line of its traceback, its change."""
    return [line.format(round_) for line in (*KINDS.values(), LAST, CHANGE)]


def grown(rounds: int) -> Trail:
    """A run of so many rounds, each of which edits a file, prints 200 lines and is validated."""
    pairs: list[tuple[Observation | Claim, str]] = []
    for round_ in range(1, rounds + 1):
        summary, error, last, change = decisive_lines(round_)
        lines = [
            f"tests/test_module_{number}.py::test_case_{number} PASSED [{number // 2}%]"
            for number in range(LINES)
        ]
        lines[70] = error
        lines[120] = (
            f"Traceback (most recent call last):\n  File 'm.py', line {round_}\n{last}"
        )
        lines[-1] = summary
        diff = f"--- a/m.py\n+++ b/m.py\n@@ -1 +1 @@\n-    pass\n{change}"
        number = 3 * round_
        pairs += [
            said(f"Round {round_}: I change the parser and run the tests.", round_),
            seen(
                number - 2,
                diff,
                source="edit_file",
                command="src/m.py",
                facts=("+1 -1",),
                round_=round_,
            ),
            seen(
                number - 1,
                "\n".join(lines),
                command="pytest -v",
                facts=("exit 1",),
                round_=round_,
            ),
            seen(
                number,
                f"{round_} failed",
                source="validator tests",
                command="pytest -q",
                facts=("exit 1", "red"),
            ),
        ]
    return trail(*pairs)


def share(prompt: str, rounds: range) -> float:
    """How many of these rounds' decisive lines the prompt holds, in percent."""
    lines = [line for round_ in rounds for line in decisive_lines(round_)]
    return 100 * sum(line in prompt for line in lines) / len(lines)


def test_the_prompt_stays_within_its_tokens_and_keeps_what_is_decisive() -> None:
    print(
        f"\nan audit of a run that prints {LINES} lines a round, at most {DEFAULT_AUDIT_TOKENS:,} tokens"
    )
    print(
        "rounds  rendered whole  the prompt  decisive lines kept: last 3 rounds / all    made in"
    )
    for rounds in range(1, ROUNDS + 1):
        events = grown(rounds)
        request = AuditRequest(
            "Make parse() accept empty input.",
            ("the tests pass",),
            (),
            "workspace",
            rounds,
            events,
        )
        whole = tokens(render_trail(events, nonce=NONCE, room=10_000_000 * TOKEN))
        began = time.perf_counter()
        prompt = audit_prompt(request, nonce=NONCE)
        seconds = time.perf_counter() - began
        size = tokens(prompt) + tokens(JUDGE_SYSTEM_PROMPT)
        newest = share(prompt, range(max(1, rounds - 2), rounds + 1))
        everything = share(prompt, range(1, rounds + 1))
        print(
            f"{rounds:6} {whole:15,} {size:11,} {newest:34.0f} % / {everything:3.0f} % {1000 * seconds:8.1f} ms"
        )
        assert size <= DEFAULT_AUDIT_TOKENS
        assert newest == 100
    assert everything >= 80

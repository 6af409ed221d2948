from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalrunner.core import events
from goalrunner.core.actions import action_of, in_words
from goalrunner.core.decision import decide
from goalrunner.core.events import Event, RunRules
from goalrunner.core.observation import Observation, Snapshot
from goalrunner.core.verdict import ValidatorResult, normalised
from goalrunner.testing import unsatisfied
from tests.support.folding import state_after

ALONE = RunRules(max_iterations=None, validators=("tests",), stall_rounds=3)
JUDGED = RunRules(max_iterations=None, has_judge=True, stall_rounds=3)


def round_of(number: int, said: str, content: str = "a") -> list[Event]:
    """A round whose validator is red, on a content named by one hexadecimal digit."""
    snapshot = Snapshot(id=content * 64, tree=content * 40)
    result = ValidatorResult(
        name="tests", passed=False, feedback=said, summary=said.partition("\n")[0]
    )
    return [
        events.RoundStarted(round=number, prompt="retry"),
        events.RoundFinished(
            round=number, reason="answered", steps=1, snapshot=snapshot
        ),
        events.ValidatorsFinished(round=number, results=(result,)),
    ]


def rounds_of(*rounds: tuple[str, str]) -> int:
    log = [
        event
        for number, (said, content) in enumerate(rounds, 1)
        for event in round_of(number, said, content)
    ]
    return state_after(ALONE, *log).stall.rounds


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1 failed in 0.03s", "1 failed in 0.04s"),
        ("took 1.2 seconds", "took 9 seconds"),
        ("at 2026-11-22T10:00:00Z", "at 2026-11-22T10:00:09.5+01:00"),
        ("10:00:01 error", "10:59:59.123 error"),
        (
            "/root/.npm/_logs/2026-11-22T20_14_47_323Z-debug-0.log",
            "/root/.npm/_logs/2026-11-22T20_14_48_101Z-debug-0.log",
        ),
        ("see report-20261122-201447.json", "see report-20261122-201501.json"),
        ("open /tmp/pytest-of-a/pytest-1/x.txt: no", "open /tmp/tmpq8d_1/x.txt: no"),
        ("<A object at 0x7f00aa>", "<A object at 0x7f11bb>"),
        (
            "id 123e4567-e89b-12d3-a456-426614174000",
            "id 923e4567-e89b-12d3-a456-426614174999",
        ),
        ("commit 3f9a2c1d", "commit 77aa01bc"),
        ("pid 12: dead", "pid 99: dead"),
        ("refused 127.0.0.1:4001", "refused 127.0.0.1:53121"),
        ("FAILED a\nFAILED b", "FAILED b\nFAILED a"),
    ],
)
def test_what_varies_by_itself_is_left_out(one: str, other: str) -> None:
    assert normalised(one) == normalised(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1 failed", "2 failed"),
        ("test_a failed", "test_b failed"),
        ("assert 1 == 2", "assert 1 == 3"),
        ("decade", "facade"),
        ("line 12", "line 13"),
    ],
)
def test_what_tells_of_progress_stays(one: str, other: str) -> None:
    assert normalised(one) != normalised(other)


@given(st.text(max_size=300))
def test_a_normalised_text_is_normal(text: str) -> None:
    assert normalised(normalised(text)) == normalised(text)


def test_rounds_that_differ_in_durations_alone_are_a_stall() -> None:
    assert (
        rounds_of(
            ("1 failed in 0.03s", "a"),
            ("1 failed in 0.04s", "a"),
            ("1 failed in 0.05s", "a"),
        )
        == 3
    )


def test_other_files_are_no_stall_although_the_output_is_the_same() -> None:
    assert rounds_of(("1 failed", "a"), ("1 failed", "b"), ("1 failed", "c")) == 1


def test_rounds_that_alternate_between_two_states_are_a_stall() -> None:
    assert rounds_of(("x", "a"), ("y", "b"), ("x", "a"), ("y", "b"), ("x", "a")) == 4


def test_a_third_state_begins_anew() -> None:
    assert rounds_of(("x", "a"), ("y", "b"), ("x", "a"), ("z", "c")) == 1


def test_the_words_of_a_judge_are_no_progress() -> None:
    def judged(number: int, said: str) -> list[Event]:
        started, finished, _ = round_of(number, "")
        return [
            started,
            finished,
            events.VerdictRecorded(round=number, verdict=unsatisfied(said)),
        ]

    state = state_after(
        JUDGED,
        *judged(1, "show it"),
        *judged(2, "it is not shown"),
        *judged(3, "no evidence"),
    )
    assert state.stall.rounds == 3


def called(number: int, source: str, command: str, *facts: str) -> Event:
    """The result of a tool call; `number` is that of its observation."""
    seen = Observation(
        id=f"o{number}", source=source, command=command, facts=facts, round=1
    )
    return events.ToolResultRecorded(
        tool_call_id=f"c{number}", evidence_ref=seen.id, observation=seen
    )


@pytest.mark.parametrize(
    ("source", "command", "facts", "action"),
    [
        ("edit_file", "src/a.py", (), "edited src/a.py"),
        ("Write", "/w/src/a.py", (), "wrote src/a.py"),
        ("shell", "pytest -q", ("exit 1",), "ran pytest -q"),
        ("Bash", "/bin/bash -lc 'cd /w && pytest -q'", (), "ran pytest -q"),
        ("shell", f"echo {'x' * 80}", (), f"ran echo {'x' * 38}…"),
        ("web_search", "parse", (), "called web_search parse"),
        ("edit_file", "src/a.py", ("denied",), ""),
        ("plan", "three steps", (), ""),
    ],
)
def test_a_call_has_a_verb(
    source: str, command: str, facts: tuple[str, ...], action: str
) -> None:
    seen = Observation(id="o1", source=source, command=command, facts=facts, round=1)
    assert action_of(seen, "/w") == action


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ({"ran pytest": 1, "edited a.py": 4}, "edited a.py 4 times, ran pytest"),
        ({"read a": 9, "ran b": 1, "ran c": 2}, "ran c 2 times, ran b, read a 9 times"),
        (
            {f"ran {name}": 1 for name in "abcde"},
            "ran a, ran b, ran c and 2 more",
        ),
    ],
)
def test_edits_are_named_before_commands(counts: dict[str, int], words: str) -> None:
    assert in_words(counts) == words


def test_the_end_names_what_the_agent_did_in_the_equal_rounds() -> None:
    before = [*round_of(1, "other", "b")]
    before[1:1] = [called(1, "shell", "ls")]
    log = before
    for number in range(2, 6):
        started, finished, checked = round_of(number, "1 failed")
        calls = [
            called(number * 10, "edit_file", "src/a.py"),
            called(number * 10 + 1, "edit_file", "src/a.py", "error"),
            called(number * 10 + 2, "shell", "pytest -q", "exit 1"),
        ]
        log += [started, *calls, finished, checked]
    step = decide(state_after(ALONE, *log))
    assert isinstance(step, events.RunEnded)
    assert step.message == (
        "4 rounds in a row ended the same way: what is checked did not change; in these"
        " rounds, the agent edited src/a.py 4 times, ran pytest -q 4 times"
    )


def test_rounds_without_a_change_are_named_where_no_call_was_recorded() -> None:
    log: list[Event] = []
    for number in range(1, 5):
        started, finished, checked = round_of(number, "1 failed")
        idle = finished.model_copy(update={"idle": number > 1})
        log += [started, idle, checked]
    step = decide(state_after(ALONE, *log))
    assert isinstance(step, events.RunEnded)
    assert step.message.endswith("the agent changed no file in 3 of them")

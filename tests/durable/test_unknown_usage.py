"""What an agent does not tell stays unknown: for machines, for people, and for budgets, over the life of several processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from goalrunner.records.event_log import read_records
from tests.support.forking import Forks
from tests.support.telling_agent import SAID, Telling, dollars, tokens

TOLD = [tokens(100, 10), dollars(0.25), SAID]
KEYS = ("tokens", "uncounted_calls", "cost_usd", "known_cost_usd", "estimated_tokens")


@pytest.fixture
def telling(tmp_path: Path, own_home: Path, forks: Forks) -> Telling:
    return Telling(tmp_path, own_home, forks)


def spent(values: dict[str, Any]) -> tuple[Any, ...]:
    """What a summary says of it."""
    return tuple(values[key] for key in KEYS)


def agents(telling: Telling) -> tuple[Any, ...]:
    """The same of the agent in the outcome."""
    usage = telling.outcome["usage"]["agent"]
    assert (usage["input_tokens"] is None) == (usage["output_tokens"] is None)
    known = (
        None
        if usage["input_tokens"] is None
        else usage["input_tokens"] + usage["output_tokens"]
    )
    return (known, *(usage[key] for key in KEYS[1:]))


@pytest.mark.parametrize(
    ("rounds", "usage", "words", "row"),
    [
        (
            [[*TOLD], [tokens(50, 5), dollars(0.5), SAID, "done"]],
            (165, 0, 0.5, 0.5, 0),
            "165 tokens · $0.50",
            "165 $0.50",
        ),
        (
            [[SAID], [SAID, "done"]],
            (None, 2, None, 0.0, 0),
            "tokens unknown · cost unknown",
            "unknown unknown",
        ),
        (
            [[*TOLD], [SAID, "done"]],
            (110, 1, None, 0.25, 0),
            "at least 110 tokens · at least $0.25",
            ">= 110 >= $0.25",
        ),
    ],
    ids=["known", "unknown", "partial"],
)
def test_every_output_names_the_same_usage(
    telling: Telling,
    rounds: list[list[Any]],
    usage: tuple[Any, ...],
    words: str,
    row: str,
) -> None:
    telling.write(*rounds)
    ended = telling.goal("run", "goal.toml")
    assert ended.code == 0, ended
    assert agents(telling) == usage
    assert spent(telling.json("status")) == spent(telling.json("list")[0]) == usage
    shown = telling.json("show")
    assert (spent(shown["summary"]), shown["outcome"]) == (usage, telling.outcome)
    assert (
        telling.json("show", "--state")["memory"]["budget_state"]["token_estimate"]
        == usage[0]
    )
    for told in (ended, telling.goal("status"), telling.goal("show")):
        assert f" s · {words}" in told.out
    assert f"spent      {words}\n" in telling.goal("show", "--state").out
    assert row in " ".join(telling.goal("list").out.split())
    assert telling.goal("verify").code == 0


def test_a_first_turn_that_was_killed_is_unknown_and_not_free(telling: Telling) -> None:
    telling.write(["hang"], [*TOLD, "done"])
    telling.killed("run", "goal.toml")
    assert spent(telling.json("status")) == (None, 1, None, 0.0, 0)
    assert "tokens unknown · cost unknown" in telling.goal("show").out
    ended = telling.goal("resume")
    assert ended.code == 0, ended
    assert "so far     round 1 of 10" in ended.out
    assert "agent: the usage of the interrupted turn is unknown" in ended.out
    assert agents(telling) == (110, 1, None, 0.25, 0)


@pytest.mark.parametrize(
    ("how", "budget", "name", "options"),
    [
        ("killed", "cost_usd = 5", "cost_usd", ("--cost", "9")),
        ("timeout", "tokens = 500", "tokens", ("--tokens", "900")),
    ],
)
def test_a_budget_that_a_cut_turn_leaves_open_is_named_with_what_lifts_it(
    telling: Telling, how: str, budget: str, name: str, options: tuple[str, str]
) -> None:
    limit: dict[str, Any] = {"timeout": "3s"} if how == "timeout" else {}
    telling.write(["hang"], [*TOLD, "done"], budget=budget, **limit)
    if how == "killed":
        telling.killed("run", "goal.toml")
    else:
        ended = telling.goal("run", "goal.toml")
        assert ended.code == 1, ended
        assert agents(telling) == (None, 1, None, 0.0, 0)
        assert (
            telling.json("show", "--state")["memory"]["budget_state"]["token_estimate"]
            is None
        )
    more = ("--timeout", "60") if how == "timeout" else ()
    events = telling.home / "runs" / telling.run / "events.jsonl"
    before = events.read_bytes()
    for given in ((), options):  # a higher limit tells no more of what was used
        refused = telling.goal("resume", *more, *given)
        why, hint = refused.err.splitlines()
        assert refused.code == 2
        assert "the usage of a call of mine" in why
        assert "is unknown (a turn was cut" in why
        assert f"goal resume {telling.run} --allow-unenforced {name} continues" in hint
        assert f"{options[0]} inf lifts the limit" in hint
        assert "[budget] allow_unenforced" in hint
    assert events.read_bytes() == before
    ended = telling.goal("resume", *more, "--allow-unenforced", name)
    assert ended.code == 0, ended
    assert agents(telling) == (110, 1, None, 0.25, 0)


@pytest.mark.parametrize(
    "lifted", [("--cost", "inf"), ("--allow-unenforced", "cost_usd")]
)
def test_what_is_known_still_ends_a_run_that_goes_on_so(
    telling: Telling, lifted: tuple[str, ...]
) -> None:
    rounds = [[tokens(10, 1), dollars(amount), SAID] for amount in (0.2, 0.4, 0.6)]
    telling.write(["hang"], *rounds, [*TOLD, "done"], budget="cost_usd = 0.5")
    telling.killed("run", "goal.toml")
    ended = telling.goal("resume", *lifted)
    if lifted[1] == "inf":
        assert ended.code == 0, ended
    else:
        assert (
            ended.code,
            telling.outcome["stop_reason"],
            telling.outcome["iterations"],
        ) == (1, "budget_exhausted", 3)


def test_a_goal_may_allow_it_from_the_start(telling: Telling) -> None:
    telling.write(
        ["hang"],
        [*TOLD, "done"],
        budget='cost_usd = 5\nallow_unenforced = ["cost_usd"]',
    )
    telling.killed("run", "goal.toml")
    assert telling.goal("resume").code == 0


def test_a_later_turn_that_was_killed_counts_as_the_one_before_it_tokens_and_dollars(
    telling: Telling,
) -> None:
    telling.write(
        [*TOLD],
        ["hang"],
        [tokens(7, 1), dollars(0.5), SAID, "done"],
        budget="cost_usd = 5\ntokens = 500",
    )
    telling.killed("run", "goal.toml")
    assert spent(telling.json("status")) == (110, 1, None, 0.25, 0)
    ended = telling.goal("resume")
    assert ended.code == 0, ended
    assert (
        "agent: the interrupted call is estimated at 110 tokens and $0.25" in ended.out
    )
    assert agents(telling) == (228, 0, 0.75, 0.75, 110)


@pytest.mark.parametrize("cut", [1, 2])
def test_tokens_that_are_totals_of_a_session_are_counted_once_although_a_turn_was_killed(
    telling: Telling, cut: int
) -> None:
    told = [[tokens(100, 10), SAID]] if cut == 2 else []
    telling.write(
        *told,
        ["hang"],
        [tokens(300, 30), SAID, "done"],
        totals=True,
        budget="tokens = 500",
    )
    telling.killed("run", "goal.toml")
    ended = telling.goal("resume")
    assert ended.code == 0, ended
    assert agents(telling) == (330, 0, None, 0.0, 0)


def test_what_an_agent_used_that_died_is_unknown_until_it_is_estimated(
    telling: Telling,
) -> None:
    telling.write(
        [*TOLD],
        ["die"],
        [tokens(7, 1), dollars(0.5), SAID, "done"],
        budget="cost_usd = 5",
    )
    ended = telling.goal("run", "goal.toml")
    assert (ended.code, telling.outcome["status"]) == (4, "failed"), ended
    assert agents(telling) == (110, 1, None, 0.25, 0)
    assert telling.goal("resume").code == 0
    assert agents(telling) == (228, 0, 0.75, 0.75, 110)


def test_an_agent_without_a_login_used_nothing(telling: Telling) -> None:
    telling.write(["deny"], [*TOLD, "done"], budget="cost_usd = 5\ntokens = 500")
    ended = telling.goal("run", "goal.toml")
    assert (ended.code, telling.outcome["stop_reason"]) == (4, "authentication"), ended
    assert agents(telling) == (0, 0, 0.0, 0.0, 0)
    assert "unknown" not in ended.out
    assert telling.goal("resume").code == 0
    assert agents(telling) == (110, 0, 0.25, 0.25, 0)


def test_a_flood_of_reports_does_not_flood_the_log(telling: Telling) -> None:
    many = 30_000
    telling.write([*([tokens(1, 1)] * many), dollars(0.5), SAID, "done"])
    assert telling.goal("run", "goal.toml").code == 0
    assert agents(telling) == (2 * many, 0, 0.5, 0.5, 0)
    log = list(read_records(telling.home / "runs" / telling.run / "events.jsonl"))
    assert (
        sum(record.event.type in ("usage_recorded", "session_opened") for record in log)
        < 20
    )

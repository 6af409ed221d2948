"""The suite itself: what every external agent must keep to, and the runner with it. Each check plays one story in a Place.

An agent that lacks an ability is not asked what needs it. How many rounds are played, and who is asked, is in each check.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import pytest

from goalrunner.checking.overlay import probe, scratch_candidates
from goalrunner.core import events
from goalrunner.core.errors import GoalError, UsageError
from goalrunner.core.outcome import Usage
from tests.conformance.moves import (
    BROKEN,
    KEYLESS,
    Ability,
    Claims,
    Dies,
    Fails,
    Floods,
    Hangs,
    Leaves,
    Runs,
    Says,
    Uses,
)
from tests.conformance.place import SECONDS, Place, living, until

DONE = Runs("touch done")
LARGE = 240_000
"""Bytes of a prompt that fits no word of a command line."""
FLOOD = 8_000_000


@dataclass(frozen=True)
class Check:
    """One story: what it needs of the agent, and how it goes."""

    name: str
    needs: frozenset[Ability]
    play: Callable[[Place], Awaitable[None]]


CHECKS: list[Check] = []


def check(
    *needs: Ability,
) -> Callable[[Callable[[Place], Awaitable[None]]], Callable[[Place], Awaitable[None]]]:
    """Make a function part of the suite, under its own name."""

    def add(
        play: Callable[[Place], Awaitable[None]],
    ) -> Callable[[Place], Awaitable[None]]:
        CHECKS.append(Check(play.__name__, frozenset(needs), play))
        return play

    return add


def chosen(able: frozenset[Ability]) -> list[Check]:
    """The checks for an agent that is able to do so much."""
    return [one for one in CHECKS if one.needs <= able]


WAYS: Sequence[Literal["child", "group", "session", "daemon", "bare", "deaf"]] = (
    "child", "group", "session", "daemon", "bare", "deaf",
)  # fmt: skip


def every_way(place: Place) -> list[Leaves]:
    """Processes that are left behind, in each way in which one escapes."""
    return [Leaves(place.called(how), how) for how in WAYS]


def spent(place: Place) -> Usage:
    """What the runner holds that the agent used."""
    used = (
        item.event
        for item in place.records
        if isinstance(item.event, events.UsageRecorded)
    )
    return sum((event.usage for event in used if event.account == "agent"), Usage())


@check()
async def two_rounds_in_one_conversation(place: Place) -> None:
    place.prepare(
        (Runs("echo seen; exit 3"), Says("The first is done.")),
        (DONE, Says("The second is done.")),
    )
    ran = await place.run()
    assert ran.how == ("complete", "satisfied", 2), ran.outcome.message
    first, second = place.told
    assert "Make the file done." in first.prompt
    assert "validator done" in second.prompt
    if "resume" in place.agent.can:
        assert (first.resumed, second.resumed) == (False, True)
        assert second.session == first.session
        assert "The first is done." not in second.prompt  # it remembers
    assert (place.workspace / "done").exists()


@check()
async def what_it_did_is_marked_as_its_own_word(place: Place) -> None:
    place.prepare((Runs("echo a word of its own; touch done"), Says()))
    ran = await place.run()
    seen = [item for item in ran.observations if "a word of its own" in item.command]
    assert seen, [item.command for item in ran.observations]
    assert {item.reported_by for item in ran.observations} == {place.agent.name}
    assert all(item.after is None and item.before for item in ran.observations)


@check("claim")
async def a_claim_proves_nothing(place: Place) -> None:
    place.prepare((Claims("test -e done", "done is there\n"), Says("It is done.")))
    ran = await place.run(max_iterations=2)
    assert ran.how == ("capped", "max_iterations", 2)
    assert [item.facts for item in ran.observations] == [("exit 0",)] * 2


@check()
async def retries_without_context_begin_a_session_of_their_own(place: Place) -> None:
    place.prepare((Says("One."),), (Says("Two."),), (DONE, Says("Three.")))
    ran = await place.run(preserve_context=False)
    assert ran.how == ("complete", "satisfied", 3), ran.outcome.message
    assert [said.resumed for said in place.told] == [False] * 3
    assert not any("One." in said.prompt for said in place.told)
    if "resume" in place.agent.can:
        assert len({said.session for said in place.told}) == 3


@check()
async def another_process_goes_on(place: Place) -> None:
    place.prepare((Says("One."),), (DONE, Says("Two.")))
    ended = place.goal("run", place.goal_file(max_iterations=1))
    assert ended.code == 1, ended
    ended = place.goal("resume", "--max-iterations", "3")
    assert ended.code == 0, ended
    first, second = place.told
    if "resume" in place.agent.can:
        assert (second.session, second.resumed) == (first.session, True)
    else:
        assert "One." in second.prompt


@check("hang")
async def a_goal_that_is_killed_leaves_no_process_and_is_resumed(place: Place) -> None:
    place.prepare(
        (Runs("touch begun"), *every_way(place), Hangs()), (DONE, Says("Two."))
    )
    process = place.start("run", place.goal_file())
    try:
        await place.until(
            lambda: (
                (place.workspace / "begun").exists()
                and len(living(place.called(""))) >= len(WAYS)
            )
        )
        process.send_signal(signal.SIGKILL)
        process.wait()
        await until(
            lambda: not living(place.user) and not living(place.called("")), SECONDS
        )
    finally:
        process.kill()
        process.communicate()
    ended = place.goal("resume")
    assert ended.code == 0, ended
    log = [item.event for item in place.log()]
    assert (
        sum(isinstance(event, events.RoundStarted) for event in log) == 1
    )  # it went on in the round that was cut
    assert len(place.told) == 2


@check("hang")
async def a_run_in_a_copy_goes_on_in_it_after_a_kill(place: Place) -> None:
    scratch = next(scratch_candidates(place.home, place.workspace))
    if why := probe(place.workspace, scratch):
        pytest.skip(f"no overlay works here: {why}")
    place.prepare((Runs("touch begun"), Hangs()), (Runs("mv begun done"), Says("Two.")))
    process = place.start("run", "--isolate", place.goal_file())
    try:
        await place.until(lambda: list(place.home.glob("runs/*/copy/layer-0/u/begun")))
        process.send_signal(signal.SIGKILL)
        process.wait()
        await until(lambda: not living(place.user), SECONDS)
    finally:
        process.kill()
        process.communicate()
    ended = place.goal("resume")
    assert ended.code == 0, ended
    assert len(place.told) == 2
    assert list(place.workspace.iterdir()) == []
    ended = place.goal("apply")
    assert ended.code == 0, ended
    assert [path.name for path in place.workspace.iterdir()] == ["done"]


@check("hang")
async def a_cancelled_run_leaves_no_process(place: Place) -> None:
    place.prepare((Runs("touch begun"), *every_way(place), Hangs()))
    running = asyncio.ensure_future(place.run())
    await place.until(
        lambda: (
            (place.workspace / "begun").exists()
            and len(living(place.called(""))) >= len(WAYS)
        )
    )
    assert place.assembly is not None
    place.assembly.run.cancel("cancelled by a person")
    for task in asyncio.all_tasks():
        if task.get_coro().__qualname__ == "Run.drive":  # type: ignore[union-attr]
            task.cancel()
    async with asyncio.timeout(2 * SECONDS):
        ran = await running
    assert ran.how[0] == "cancelled", ran.outcome
    await until(
        lambda: not living(place.user) and not living(place.called("")), SECONDS
    )


@check("hang")
async def a_timeout_ends_a_round_that_hangs(place: Place) -> None:
    place.prepare((Runs("touch begun"), *every_way(place), Hangs()))
    seconds = 4.0 * place.agent.patience
    async with asyncio.timeout(seconds + 3 * SECONDS):
        ran = await place.run(timeout=seconds)
    assert (place.workspace / "begun").exists()
    assert ran.how[:2] == ("capped", "timeout"), ran.outcome.message
    await until(
        lambda: not living(place.user) and not living(place.called("")), SECONDS
    )


@check()
async def an_error_is_a_failure_whatever_the_exit_code(place: Place) -> None:
    place.prepare((Fails("overloaded: no capacity left for this request"),))
    ran = await place.run()
    assert ran.how[0] == "failed", ran.how
    assert "no capacity left for this request" in ran.outcome.message
    assert len(place.told) == 1  # it is no work to prompt again for


@check()
async def a_wrong_key_is_named_with_what_mends_it(place: Place) -> None:
    place.prepare((Fails(f"{KEYLESS}: invalid x-api-key"),))
    ran = await place.run()
    assert ran.how[0] == "failed", ran.how
    assert "key or login" in ran.outcome.message
    assert place.agent.signing_in in ran.outcome.message.splitlines()[-1]
    assert len(place.told) == 1


@check("persists")
async def a_wrong_key_ends_a_round_in_which_it_is_tried_again_and_again(
    place: Place,
) -> None:
    place.prepare((Fails(KEYLESS, advised=False),))
    ran = await place.run(timeout=15.0 * place.agent.patience)
    assert ran.how[0] == "failed", ran.how
    assert "key or login" in ran.outcome.message


@check("tries")
async def a_model_that_is_out_of_order_ends_the_run_at_its_deadline(
    place: Place,
) -> None:
    place.prepare((Fails(BROKEN),))
    seconds = 2.0 * place.agent.patience
    async with asyncio.timeout(seconds + 3 * SECONDS):
        ran = await place.run(timeout=seconds)
    assert ran.how[0] in ("failed", "capped"), ran.outcome.message
    await until(lambda: not living(place.user), SECONDS)


@check("die")
async def an_agent_that_is_killed_has_failed(place: Place) -> None:
    place.prepare((Runs("touch begun"), Dies()))
    ran = await place.run()
    assert ran.how[0] == "failed", ran.how
    assert "SIGKILL" in ran.outcome.message
    assert (place.workspace / "begun").exists()


@check("usage")
async def usage_of_each_round_is_added_up(place: Place) -> None:
    place.prepare(
        (Uses(100, 10, 0.02), Says("One.")), (Uses(50, 5, 0.01), DONE, Says("Two."))
    )
    ran = await place.run()
    assert ran.how == ("complete", "satisfied", 2), ran.outcome.message
    used = spent(place)
    assert (used.input_tokens, used.output_tokens) == (150, 15)
    if "cost" in place.agent.can:
        assert used.cost_usd is not None
        assert round(used.cost_usd, 6) == 0.03


@check("cumulative")
async def totals_of_a_session_are_counted_once(place: Place) -> None:
    moves = (
        (Uses(100, 10, 0.02), Says("One.")),
        (Uses(50, 5, 0.01), DONE, Says("Two.")),
    )
    place.prepare(*moves, cumulative=True)
    ended = place.goal("run", place.goal_file(max_iterations=1))
    assert ended.code == 1, ended
    ended = place.goal("resume", "--max-iterations", "3")  # in another process as well
    assert ended.code == 0, ended
    place.records = place.log()
    used = spent(place)
    assert (used.input_tokens, used.output_tokens) == (150, 15)
    assert used.cost_usd is not None
    assert round(used.cost_usd, 6) == 0.03


@check("silent")
async def what_is_not_told_is_unknown_and_not_nothing(place: Place) -> None:
    place.prepare((DONE, Says()), silent=True)
    ran = await place.run()
    assert ran.how[0] == "complete"
    assert spent(place).cost_usd is None
    assert spent(place).tokens == 0


@check("silent")
async def a_budget_that_cannot_be_kept_is_refused(place: Place) -> None:
    place.prepare((DONE, Says()), silent=True)
    with pytest.raises(UsageError) as refused:
        await place.run(budget={"tokens": 100})
    assert "allow_unenforced" in f"{refused.value.message} {refused.value.hint}"
    ran = await place.run(budget={"tokens": 100, "allow_unenforced": ["tokens"]})
    assert ran.how[0] == "complete"


@check("budget")
async def a_budget_ends_the_run_before_the_next_round(place: Place) -> None:
    place.prepare((Uses(100, 10, 0.02), Says("Again.")))
    ran = await place.run(budget={"tokens": 150}, max_iterations=9)
    assert ran.how[:2] == ("capped", "budget_exhausted"), ran.how
    assert len(place.told) == 2


@check()
async def a_large_prompt_arrives_whole(place: Place) -> None:
    place.prepare((DONE, Says()))
    objective = (
        "Make the file done. " + "щ" * (LARGE // 2) + " The last word is halibut."
    )
    ran = await place.run(objective=objective)
    assert ran.how[0] == "complete", ran.outcome.message
    assert objective in place.told[0].prompt


@check("leave")
async def every_process_is_gone_at_the_end_of_a_round(place: Place) -> None:
    ways = [way for way in every_way(place) if way.how != "child"]
    seen: list[list[int]] = []
    place.prepare(
        (*ways, Says("One.")),
        (
            Runs(f"pgrep -f '^{place.called('')}'; test $? -eq 1 && touch done"),
            Says("Two."),
        ),
    )

    def look(record: object) -> None:
        if isinstance(getattr(record, "event", None), events.RoundFinished):
            seen.append(living(place.called("")))

    place.watchers.append(look)
    ran = await place.run()
    assert seen[0] == []  # before the next step looks at what the round left
    assert ran.how == ("complete", "satisfied", 2), ran.outcome.message
    assert len(ran.left[0]) == len(ways), ran.left
    assert ran.left[1] == ()


@check("leave")
async def a_child_in_its_own_group_is_gone_with_the_run(place: Place) -> None:
    """For a program that lives as long as the run, it is unknown whether such a child is a part of it."""
    place.prepare((DONE, Leaves(place.called("child"), "child"), Says()))
    ran = await place.run()
    assert ran.how == ("complete", "satisfied", 1), ran.outcome.message
    await until(
        lambda: not living(place.called("child")) and not living(place.user), SECONDS
    )


@check("leave")
async def what_it_leaves_changes_nothing_after_its_round(place: Place) -> None:
    over = place.root / "over"
    late = f"(setsid sh -c 'until test -e {over}; do sleep 0.05; done; touch done' >/dev/null 2>&1 &)"
    place.prepare((Runs(late), Says("It will be done.")))
    ran = await place.run(max_iterations=1)
    over.touch()
    await asyncio.sleep(0.3)  # nothing to wait for: what must not come never does
    assert ran.how[:2] == ("capped", "max_iterations")
    assert not (place.workspace / "done").exists()
    assert not living(place.user)


@check("flood")
async def floods_are_survived(place: Place) -> None:
    flood = [Floods("stderr", FLOOD), Floods("stdout", FLOOD), Floods("line", FLOOD)]
    place.prepare(
        (
            Runs("echo before"),
            *flood,
            Runs("echo after; touch done"),
            Says("It is done."),
        )
    )
    ran = await place.run()
    assert ran.how == ("complete", "satisfied", 1), ran.outcome.message
    assert [item.command.split(";")[0] for item in ran.observations] == [
        "echo before",
        "echo after",
    ]


@check("absent")
async def a_program_that_is_not_there_is_named_with_what_mends_it(place: Place) -> None:
    place.prepare((DONE, Says()), program="no-such-program-anywhere")
    message = ""
    try:
        ran = await place.run()
        message = ran.outcome.message
        assert ran.how[0] == "failed", ran.how
    except GoalError as error:  # before the run began
        message = f"{error.message}\n{error.hint}"
    assert "no-such-program-anywhere" in message
    assert "pip install double" in message
    assert place.told == []


@check("jailed")
async def a_write_outside_of_its_room_is_refused(place: Place) -> None:
    outside = place.root / "outside"
    place.prepare((Runs(f"touch {outside}; touch done"), Says("It is done.")))
    ran = await place.run()
    assert ran.how == ("complete", "satisfied", 1), ran.outcome.message
    assert not outside.exists()

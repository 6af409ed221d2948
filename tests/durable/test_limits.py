"""Limits over the life of several processes: exact, raised on the way, warned of, and estimated where a call was cut."""

from __future__ import annotations

import time

from tests.support.command_line import start
from tests.support.durable_goal import Goal
from tests.support.model_server import ModelServer, hang, say
from tests.support.recordings import agent, shell

PLAIN = 'objective = "make done"\nmodel = "MODEL"\nvalidator = "test -e done"\n'


def used(number: int) -> dict[str, object]:
    return {
        "usage": {"input_tokens": number, "output_tokens": 0, "cost_usd": number / 1000}
    }


def test_a_capped_run_wants_a_raised_limit_and_goes_on_with_one(goal: Goal) -> None:
    goal.write(
        PLAIN + "max_iterations = 1",
        agent("no", **used(10)),
        agent("", shell("touch done")),
        agent("yes"),
    )
    capped = goal.run()
    assert capped.code == 1
    run = goal.folder.name
    refused = goal.resume()
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.splitlines() == [
        f"Error: run {run} is capped: the only round is used",
        f"raise it: goal resume {run} --max-iterations 2",
    ]
    assert f"goal resume {run} --max-iterations 2" in capped.out
    assert goal.outcome()["status"] == "capped"
    done = goal.resume("--max-iterations", "2", "--note", "mind the gap")
    assert done.code == 0, done
    outcome = goal.outcome()
    assert (
        outcome["status"],
        outcome["iterations"],
        outcome["limits"]["max_iterations"],
    ) == ("complete", 2, 2)
    assert "The owner says:\nmind the gap" in str(goal.chat()[-4]["content"])


def test_what_counts_is_printed_first(goal: Goal) -> None:
    limits = 'max_iterations = 1\ntimeout = "30m"\n[budget]\ntokens = 1000\n'
    goal.write(
        PLAIN + limits,
        agent("no", **used(10)),
        agent("", shell("touch done")),
        agent("yes"),
    )
    goal.run()
    lines = goal.resume("--max-iterations", "2").out.splitlines()
    assert lines[0] == "goal       make done"
    assert lines[1] == f"run        {goal.folder.name}"
    so_far = next(line for line in lines if line.startswith("so far"))
    assert so_far.startswith("so far     round 1 of 1 · ")
    assert so_far.endswith(" s of 30 min · 10 tokens of 1,000 · $0.01")
    resumed = next(line for line in lines if line.startswith("resumed"))
    assert resumed == "resumed    2 rounds · 30 min · 1,000 tokens"


def test_tokens_are_exact_at_the_boundary_over_processes(goal: Goal) -> None:
    replies = [
        agent("no", **used(40)),
        agent("no", **used(60)),
        agent("never asked", **used(1)),
    ]
    goal.write(PLAIN + "[budget]\ntokens = 100\n", *replies)
    died = goal.run(kill=("after", 12))
    assert died.code == -9
    ended = goal.resume()
    assert ended.code == 1, ended
    outcome = goal.outcome()
    assert outcome["stop_reason"] == "budget_exhausted"
    assert outcome["usage"]["agent"]["input_tokens"] == 100
    assert (
        ended.out.count("warning    100 tokens of 100 are spent (100 % of the limit)")
        == 1
    )
    refused = goal.resume()
    assert (refused.code, refused.err.splitlines()[1]) == (
        2,
        f"raise it: goal resume {goal.folder.name} --tokens 200",
    )


def test_the_commands_after_an_answer_raise_the_spent_budget(goal: Goal) -> None:
    asks = {"name": "ask", "arguments": {"question": "Which colour?"}}
    replies = [
        agent("", asks, **used(40)),
        agent("I wait", **used(70)),
        agent("", shell("touch done")),
        agent("yes"),
    ]
    goal.write(PLAIN + "[budget]\ntokens = 100\n", *replies)
    asked = goal.run()
    assert (asked.code, goal.outcome()["stop_reason"]) == (3, "question_open")
    resume = f"goal resume {goal.folder.name} --tokens 220"
    assert f"then       {resume}" in asked.out
    assert goal.command("answer", goal.folder.name, "blue").out.endswith(
        f"To continue:\n{resume}\n"
    )
    for command in ("status", "show"):
        assert f"continue   {resume}" in goal.command(command).out
    assert f"raise it: {resume}" in goal.resume().err
    assert goal.resume("--tokens", "220").code == 0


def test_dollars_are_exact_at_the_boundary_and_warned_of_once(goal: Goal) -> None:
    replies = [agent("no", **used(number)) for number in (85, 10, 5)]
    goal.write(PLAIN + "[budget]\ncost_usd = 0.1\n", *replies)
    ended = goal.run()
    assert (ended.code, goal.outcome()["stop_reason"]) == (1, "budget_exhausted")
    assert goal.outcome()["iterations"] == 3
    (warning,) = [line for line in ended.out.splitlines() if line.startswith("warning")]
    assert warning.endswith(" of $0.10 are spent (85 % of the limit)")


def test_the_deadline_counts_active_time_over_processes(goal: Goal) -> None:
    goal.write(PLAIN + 'timeout = "2s"\n', agent("late", delay=60))
    assert goal.run().code == 1
    call = (
        len(goal.records()) - 1
    )  # the last event before the end begins the call of the model
    goal.run_anew(("after", call))
    log = goal.folder / "events.jsonl"
    spent = goal.records()[-1].elapsed
    assert goal.resume().code == 1
    assert goal.outcome()["stop_reason"] == "timeout"
    assert goal.outcome()["duration"] < spent + 2.5
    refused = goal.resume()
    assert (refused.code, "--timeout 4" in refused.err) == (2, True), refused
    assert log.exists()


def test_a_call_that_was_cut_is_estimated_and_marked_and_the_server_may_have_died(
    goal: Goal,
) -> None:
    with ModelServer([say("no", usage=(100, 20)), hang()]) as server:
        agent = f'[agent]\nmodel = "openai/agent"\napi_base = "{server.base_url}"\n'
        goal.write(f'objective = "make done"\nvalidator = "test -e done"\n{agent}')
        env = {"OPENAI_API_KEY": "none"}
        started = start("run", "goal.toml", cwd=goal.root, env=env)
        deadline = time.monotonic() + 60
        while len(server.requests) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        started.kill()
        started.communicate()
        port = int(server.base_url.rsplit(":", 1)[1].split("/")[0])
    with ModelServer([say("still no", usage=(100, 20))] * 20, port=port) as again:
        ended = goal.resume("--max-iterations", "2", env=env)
        assert len(again.requests) == 1
    assert (ended.code, goal.outcome()["iterations"]) == (1, 2), ended
    usage = goal.outcome()["usage"]["agent"]
    assert (
        usage["input_tokens"],
        usage["output_tokens"],
        usage["estimated_tokens"],
    ) == (300, 60, 120)
    assert "agent: the interrupted call is estimated at 120 tokens" in ended.out
    assert "360 tokens, about 120 estimated · no price" in ended.out
    assert "360 tokens, about 120 estimated · no price" in goal.command("status").out

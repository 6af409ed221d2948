"""A small real model works at a small goal: it fails, reads what is missing, and succeeds. Only the validator decides."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from goalrunner import (
    LLM,
    ChatConversation,
    Goal,
    GoalOutcome,
    arun_goal,
    chat_conversation,
)
from goalrunner.core.events import (
    RECORD,
    AuditFailed,
    AuditStarted,
    Event,
    RunEnded,
    VerdictRecorded,
)
from goalrunner.core.outcome import GoalStatus, StopReason
from tests.local_model.prompting import chat_examples, params, system_prompt
from tests.local_model.workplace import (
    FEEDBACK,
    KEY_VARIABLE,
    MAX_ITERATIONS,
    MODEL,
    OBJECTIVE,
    SEEDS,
    WANTED,
    Workplace,
    red_then_green,
    told,
)

pytestmark = [pytest.mark.local_model, pytest.mark.timeout(600)]


def test_goal_run_drives_a_real_model_from_red_to_green(workplace: Workplace) -> None:
    failures = []
    for seed in SEEDS:
        folder = workplace.workspace(f"seed-{seed}")
        (folder / "goal.toml").write_text(tomli_w.dumps(_goal_file(workplace, seed)))
        command = [sys.executable, "-m", "goalrunner", "run", "goal.toml", "--json"]
        ran = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert ran.returncode in (0, 1), ran.stderr
        outcome = GoalOutcome.model_validate_json(ran.stdout)
        events = _events(Path(outcome.run_path))
        if red_then_green(outcome, events):
            assert ran.returncode == 0
            assert (folder / "hello.txt").read_text().strip() == WANTED
            assert outcome.attempts[0].feedback is not None
            assert FEEDBACK in outcome.attempts[0].feedback
            assert (
                json.loads((Path(outcome.run_path) / "outcome.json").read_text())[
                    "status"
                ]
                == "complete"
            )
            return
        failures.append(f"seed {seed}: {told(outcome, events)}")
    pytest.fail("no seed led from red to green\n" + "\n".join(failures))


async def test_run_goal_drives_a_conversation_with_examples_from_red_to_green(
    workplace: Workplace,
) -> None:
    failures = []
    for seed in SEEDS:
        folder = workplace.workspace(f"seed-{seed}")
        conversation = _conversation(workplace, folder, seed)
        events: list[Event] = []
        outcome = await arun_goal(
            conversation,
            OBJECTIVE,
            max_iterations=MAX_ITERATIONS,
            validators=[workplace.validator()],
            # Its own failed commands are no good examples to it: each round begins from the four alone.
            preserve_context=False,
            prompt=OBJECTIVE,
            resume_prompt="{feedback}",
            workspace=folder,
            on_event=events.append,
        )
        if red_then_green(outcome, events):
            assert (folder / "hello.txt").read_text().strip() == WANTED
            assert conversation.messages[: len(chat_examples())] == chat_examples()
            assert FEEDBACK in conversation.messages[len(chat_examples())]["content"]
            return
        failures.append(f"seed {seed}: {told(outcome, events)}")
    pytest.fail("no seed led from red to green\n" + "\n".join(failures))


async def test_a_real_judge_out_of_its_depth_never_completes_a_goal_without_proof(
    workplace: Workplace,
) -> None:
    folder = workplace.workspace("judged")
    judge = LLM(
        MODEL,
        api_base=workplace.api_base,
        api_key_env=KEY_VARIABLE,
        params={"max_tokens": 80},
    )
    goal = Goal(
        objective=OBJECTIVE,
        success_criteria=("hello.txt says the word",),
        max_iterations=1,
    )
    events: list[Event] = []
    outcome = await arun_goal(
        _conversation(workplace, folder, SEEDS[0]),
        goal,
        judge,
        workspace=folder,
        on_event=events.append,
    )
    audits = [event.round for event in events if isinstance(event, AuditStarted)]
    verdicts = [event for event in events if isinstance(event, VerdictRecorded)]
    assert audits
    assert [event.round for event in verdicts] == audits
    unreadable: list[AuditFailed] = []
    for event in events:
        match event:
            case AuditStarted():
                unreadable = []
            case AuditFailed():
                unreadable.append(event)
                assert event.kind == "parse"
            case VerdictRecorded() if event.verdict.source == "fallback":
                assert (
                    event.verdict.score,
                    event.verdict.complete,
                    len(unreadable),
                ) == (0.0, False, 3)
            case VerdictRecorded():
                assert event.verdict.source == "judge"
                assert len(unreadable) < 3
    if outcome.passed:
        # Then it has quoted what really happened, for every criterion.
        proof = verdicts[-1]
        assert proof.verdict.criteria
        assert all(criterion.evidence for criterion in proof.verdict.criteria)
        assert proof.citations_checked >= len(proof.verdict.criteria)
        assert isinstance(events[-1], RunEnded)
    elif verdicts[-1].verdict.source == "judge":
        assert (outcome.status, outcome.stop_reason) == (
            GoalStatus.CAPPED,
            StopReason.MAX_ITERATIONS,
        )
        assert outcome.iterations == 1
    else:
        assert (outcome.status, outcome.stop_reason) == (
            GoalStatus.FAILED,
            StopReason.JUDGE_FAILED,
        )
        assert len(verdicts) == 3
    assert outcome.usage["judge"].calls == len(audits) + sum(
        isinstance(e, AuditFailed) for e in events
    ) - sum(event.verdict.source == "fallback" for event in verdicts)


def _goal_file(workplace: Workplace, seed: int) -> dict[str, Any]:
    return {
        "objective": OBJECTIVE,
        "validators": [
            workplace.validator().model_dump(include={"name", "run", "env"})
        ],
        "resume_prompt": "{feedback}",
        "max_iterations": MAX_ITERATIONS,
        "agent": {
            "model": MODEL,
            "api_base": workplace.api_base,
            "api_key_env": KEY_VARIABLE,
            "system_prompt": system_prompt(),
            # A forced call leaves no way to end a turn by words, so a turn is one call.
            "max_steps": 1,
            "tools": ["shell"],
            "env": {"PATH": str(workplace.programs)},
            "params": params(seed),
        },
    }


def _conversation(workplace: Workplace, folder: Path, seed: int) -> ChatConversation:
    llm = LLM(
        MODEL,
        api_base=workplace.api_base,
        api_key_env=KEY_VARIABLE,
        params=params(seed),
    )
    conversation = chat_conversation(
        llm,
        workspace=folder,
        max_steps=1,
        tools=("shell",),
        env={"PATH": str(workplace.programs)},
    )
    conversation.messages[:] = chat_examples()
    return conversation


def _events(run: Path) -> list[Event]:
    lines = (run / "events.jsonl").read_bytes().splitlines()
    return [RECORD.validate_json(line).event for line in lines]

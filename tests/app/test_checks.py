"""What may be handed in as validators."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from goalrunner import GoalController, ValidatorSpec, run_goal
from goalrunner.app.run_options import split_checks
from goalrunner.core.agent_ports import Recorder, RoundReply
from goalrunner.core.errors import UsageError
from goalrunner.core.observation import Snapshot
from goalrunner.snapshots.reader import SnapshotReader
from goalrunner.testing import ScriptedConversation, ScriptedValidator

SPEC = ValidatorSpec(run="false", name="never")
VALIDATOR = ScriptedValidator(True, name="mine")


def check(response: Any, agent: Any) -> bool:
    return True


@pytest.mark.parametrize("given", ["pytest -q", SPEC, VALIDATOR])
def test_one_check_is_one_check(given: Any) -> None:
    assert split_checks(given) == split_checks([given])
    assert sum(map(len, split_checks(given))) == 1


def test_commands_come_before_specifications_and_callables_become_validators() -> None:
    specs, own = split_checks(item for item in (VALIDATOR, SPEC, "true", check))
    assert [(spec.name, spec.run) for spec in specs] == [
        ("true", "true"),
        ("never", "false"),
    ]
    assert [validator.name for validator in own] == ["mine", "check"]
    assert [validator.name for validator in split_checks(check)[1]] == ["check"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (5, "5"),
        (None, "None"),
        (b"true", "b'true'"),
        ({"run": "true"}, "{'run': 'true'}"),
        (["true", 5], "5"),
        ([{"run": "true"}], "{'run': 'true'}"),
        ([None], "None"),
        (["  "], "'  '"),
        ("", "''"),
    ],
)
def test_what_is_no_check_is_refused_at_the_call(given: Any, said: str) -> None:
    with pytest.raises(UsageError) as refusal:
        run_goal(ScriptedConversation("done"), "x", validators=given)
    assert refusal.value.message == f"{said} is not a validator"
    with pytest.raises(UsageError, match="validator"):
        GoalController("x", validators=given)


def test_one_command_is_run_as_a_whole(tmp_path: Path) -> None:
    outcome = run_goal(
        ScriptedConversation("done"), "x", validators="true", workspace=tmp_path
    )
    assert outcome.passed


def test_a_generator_of_checks_is_read_once_and_every_check_runs() -> None:
    validators = (item for item in ("true", check, VALIDATOR, SPEC))
    outcome = run_goal(
        ScriptedConversation("done"), "x", validators=validators, max_iterations=1
    )
    assert (outcome.status, outcome.attempts[0].feedback) == (
        "capped",
        "validator never: exit 1",
    )


def test_the_files_of_the_start_are_listed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[str] = []
    listing = SnapshotReader.listing

    async def counted(self: SnapshotReader, snapshot: Snapshot) -> Any:
        listed.append(snapshot.tree)
        return await listing(self, snapshot)

    class Writing(ScriptedConversation):
        async def send(self, prompt: str, recorder: Recorder) -> RoundReply:
            (tmp_path / f"{time.time_ns()}.txt").touch()
            return await super().send(prompt, recorder)

    monkeypatch.setattr(SnapshotReader, "listing", counted)
    outcome = run_goal(
        Writing(*["done"] * 4),
        "x",
        validators="false",
        workspace=tmp_path,
        max_iterations=4,
    )
    assert outcome.iterations == 4
    assert len(listed) == 1

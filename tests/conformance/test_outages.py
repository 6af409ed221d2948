"""The real programs at usage limits and overloads: the run waits or tries again, and completes in the same round."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from goalrunner.agents.external_agents import parser_class
from goalrunner.core import events
from goalrunner.records.event_log import read_records
from tests.conformance.installed import missing, no_keys, search_path
from tests.conformance.place import toml
from tests.support.command_line import Ended
from tests.support.fake_provider import SETTINGS, Answer, FakeProvider, fail, run, say
from tests.support.forking import goal
from tests.support.transitions import faults

pytestmark = [pytest.mark.agents, pytest.mark.timeout(120)]

WORK = (run("touch done"), say("It is done."))

FEW_TRIES: dict[str, dict[str, Any]] = {
    "claude": {"env": {"CLAUDE_CODE_MAX_RETRIES": "0"}},
    "codex": {
        "args": [
            *("-c", "model_providers.fake.request_max_retries=0"),
            *("-c", "model_providers.fake.stream_max_retries=0"),
        ]
    },
    "gemini": {},
}
"""Settings without the program's own retries."""

LOGIN = {"ANTHROPIC_API_KEY": "", "CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat01-0123456789"}
"""Claude Code with a login instead of a key: only so it hears of the limits of a subscription."""


@dataclass
class Attempt:
    """One program in a folder of its own, at a server that answers from a script."""

    name: str
    root: Path
    environ: dict[str, str] = field(default_factory=dict)

    def run(
        self, *script: Answer, environ: dict[str, str] | None = None, **keys: Any
    ) -> Ended:
        """Run a goal of one file to its end."""
        workspace, user = self.root / "work", self.root / "user"
        workspace.mkdir()
        with FakeProvider(script, fresh=True, advises=False) as server:
            point = SETTINGS[self.name].at(server)
            for path, text in point.files.items():
                (user / path).parent.mkdir(parents=True, exist_ok=True)
                (user / path).write_text(text)
            few = FEW_TRIES[self.name]
            agent = {"use": self.name, "args": [*point.args, *few.get("args", ())]}
            lines = {
                "objective": "Make the file done.",
                "validator": "test -e done",
                **keys,
            }
            (workspace / "goal.toml").write_text(
                f"{toml(lines)}\n[agent]\n{toml(agent)}\n"
            )
            path = os.pathsep.join([str(Path(sys.executable).parent), search_path()])
            home = {
                "HOME": str(user),
                "GOAL_HOME": str(self.root / "home"),
                "PATH": path,
                "IS_SANDBOX": "1",
            }
            return goal(
                "run",
                cwd=workspace,
                env={**point.env, **few.get("env", {}), **home, **(environ or {})},
            )

    def events(self, *kinds: type[Any]) -> Sequence[Any]:
        """Events of these types in the log, which is in order."""
        (folder,) = (self.root / "home" / "runs").iterdir()
        records = list(read_records(folder / "events.jsonl"))
        assert not any(faults(records)), [fault for fault in faults(records) if fault]
        return [record.event for record in records if isinstance(record.event, kinds)]


def attempt(name: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> Attempt:
    """Return the program in its folder, or skip the test."""
    if why := missing(parser_class(name).preset, "command"):
        pytest.skip(why)
    no_keys(monkeypatch)
    return Attempt(name, root)


@pytest.mark.parametrize(("name", "environ"), [("claude", LOGIN), ("codex", {})])
def test_a_run_waits_for_the_end_of_a_usage_limit(
    name: str, environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = attempt(name, tmp_path, monkeypatch)
    ended = tried.run(fail(429, resets_in=3.0, times=1), *WORK, environ=environ)
    assert ended.code == 0, ended
    (failed,) = tried.events(events.WorkFailed)
    (wait,) = tried.events(events.WaitStarted)
    assert (failed.kind, wait.kind) == ("limit", "limit")
    assert failed.resets_at == wait.until
    assert len(tried.events(events.RoundStarted)) == 1


@pytest.mark.parametrize(
    ("name", "status"), [("claude", 529), ("claude", 500), ("codex", 503)]
)
def test_an_overload_is_tried_again_in_the_same_round(
    name: str, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = attempt(name, tmp_path, monkeypatch)
    ended = tried.run(fail(status, "Overloaded", times=1), *WORK)
    assert ended.code == 0, ended
    assert [(wait.kind, wait.number) for wait in tried.events(events.WaitStarted)] == [
        ("retry", 1)
    ]
    assert len(tried.events(events.RoundStarted)) == 1


@pytest.mark.parametrize(
    ("name", "refusal"),
    [
        ("claude", fail(429, "Rate limit reached", retry_after=3600)),
        ("codex", fail(429, "Rate limit reached", retry_after=3600)),
        ("gemini", fail(429, "You exceeded your current quota", resets_in=3600.0)),
    ],
)
def test_a_limit_without_a_known_end_is_waited_for_only_within_the_longest_wait(
    name: str, refusal: Answer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = attempt(name, tmp_path, monkeypatch)
    ended = tried.run(refusal, wait="30s")
    assert ended.code == 4, ended
    (failed,) = tried.events(events.WorkFailed)
    assert (failed.kind, failed.resets_at) == ("limit", "")
    assert not tried.events(events.WaitStarted)
    assert "goal resume" in ended.out

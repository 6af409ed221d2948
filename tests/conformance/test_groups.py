"""The best of Claude Code and Codex: both programs work on one goal at once, each at a scripted server."""

from __future__ import annotations

import json
import os
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from goalrunner.agents.external_agents import parser_class
from goalrunner.checking.overlay import probe, scratch_candidates
from tests.conformance.installed import missing, no_keys, search_path
from tests.conformance.place import living
from tests.support.command_line import Ended
from tests.support.fake_provider import SETTINGS, Answer, FakeProvider, run, say
from tests.support.forking import goal
from tests.support.workspaces import git, make_repository

pytestmark = [pytest.mark.agents, pytest.mark.timeout(240)]

_GOAL = 'objective = "Make the file done."\nvalidator = "test -e done"\n'
_CODEX = """\
model_provider = "fake"

[model_providers.fake]
name = "fake"
base_url = "{base_url}"
wire_api = "responses"
env_key = "FAKE_KEY"
"""
"""Its settings as a file: arguments of the goal would be those of both programs."""


class Pair:
    """A workspace in which both programs are run, and the servers that they ask."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.user, self.home = root / "user", root / "home"
        (self.user / ".codex").mkdir(parents=True)
        self.workspace = make_repository(root / "work", {"goal.toml": _GOAL})
        path = os.pathsep.join([str(Path(sys.executable).parent), search_path()])
        self.environ = {
            "HOME": str(self.user),
            "GOAL_HOME": str(self.home),
            "PATH": path,
            "IS_SANDBOX": "1",
        }

    def best_of(
        self, *options: str, claude: tuple[Answer, ...], codex: tuple[Answer, ...]
    ) -> Ended:
        """Run both, each with the answers of its model."""
        with ExitStack() as servers:
            for name, script in {"claude": claude, "codex": codex}.items():
                server = servers.enter_context(FakeProvider(script, fresh=True))
                settings = SETTINGS[name].at(server)
                self.environ |= settings.env
                if name == "codex":
                    url = server.base_url(settings.wire)
                    text = _CODEX.replace("{base_url}", url)
                    (self.user / ".codex" / "config.toml").write_text(text)
            return self.goal("run", "--agent", "claude", "--agent", "codex", *options)

    def goal(self, *arguments: str) -> Ended:
        return goal(*arguments, cwd=self.workspace, env=self.environ)

    @property
    def group(self) -> str:
        (folder,) = (self.home / "batches").iterdir()
        return folder.name


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pair:
    for name in ("claude", "codex"):
        if why := missing(parser_class(name).preset, "command"):
            pytest.skip(why)
    no_keys(monkeypatch)
    pair = Pair(tmp_path)
    scratch = next(scratch_candidates(pair.home, pair.workspace))
    if why := probe(pair.workspace, scratch):
        pytest.skip(f"no overlay works here: {why}")
    return pair


def test_both_are_verified_and_the_smaller_change_is_applied(pair: Pair) -> None:
    ended = pair.best_of(
        "--all",
        "--json",
        claude=(run("seq 9 > done"), say("It is done.")),
        codex=(run("echo done > done"), say("It is done.")),
    )
    assert ended.code == 0, ended
    value = json.loads(ended.out)
    names = {entry["run_id"]: entry["name"] for entry in value["entries"]}
    assert [names[run_id] for run_id in value["ranking"]] == ["codex", "claude"]
    assert all(entry["tokens"] for entry in value["entries"])
    assert git(pair.workspace, "status", "--porcelain") == ""
    assert pair.goal("apply", pair.group).code == 0
    assert (pair.workspace / "done").read_text() == "done\n"


def test_the_first_verified_one_ends_the_other(pair: Pair) -> None:
    begun = pair.root / "begun"
    ended = pair.best_of(
        claude=(run(f"touch {begun}; sleep 1000"), say("It is done.")),
        # It ends each command after some seconds.
        codex=(
            *[run(f"until [ -e {begun} ]; do sleep 0.1; done; touch done")] * 9,
            say("It is done."),
        ),
    )
    assert ended.code == 0, ended
    assert "complete   codex" in ended.out
    assert "stopped    claude" in ended.out
    assert living(f"HOME={pair.user}") == []
    assert pair.goal("apply", pair.group).code == 0
    assert (pair.workspace / "done").exists()

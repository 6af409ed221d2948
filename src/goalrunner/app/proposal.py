"""The goal file that `goal init` proposes for a project."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from goalrunner.app.doctor import BaselineResult
from goalrunner.app.project import InstalledAgent, Project
from goalrunner.core.goal import Goal
from goalrunner.goalfile.loading import resolved_current_folder
from goalrunner.goalfile.place import DEFAULT, project_of

GREEN_TESTS = "Make the tests pass."
_UNIMPORTED = re.compile(r"ModuleNotFoundError: No module named '(\w+)")
# Failing tests that a proposal names.
_NAMED = 3
# The column at which the comments of the goal file begin, as far as lines are shorter.
_COMMENT_COLUMN = 38

_Row = tuple[str, str]  # a line of the goal file, and its comment


@dataclass(frozen=True)
class Proposal:
    """The values from which the goal file is made."""

    project: Project
    command: str
    why: str
    agent: InstalledAgent | None
    judge: str

    @property
    def goal(self) -> Goal:
        workspace = {"path": str(resolved_current_folder())}
        return Goal(objective=GREEN_TESTS, validator=self.command, workspace=workspace)

    def unimported_module(self, baseline: BaselineResult) -> str:
        """Return the module of this folder that `pytest` cannot import; empty if none.

        `python -m pytest` adds this folder to the search path, and can import it.
        """
        # Another command than pytest has no such form.
        if self.as_module == self.command or baseline.event is None:
            return ""
        for result in baseline.event.results:
            if result.passed:
                continue
            for name in _UNIMPORTED.findall(result.feedback):
                if Path(f"{name}.py").is_file() or Path(name).is_dir():
                    return str(name)
        return ""

    @property
    def as_module(self) -> str:
        """The command with `python -m pytest` in place of `pytest`.

        The environment stays the same.
        """
        in_environment = re.sub(
            r"\A((?:uv|poetry) run |\S+/bin/)pytest\b",
            r"\1python -m pytest",
            self.command,
        )
        # Without an environment of its own, the project has the python of PATH.
        return re.sub(r"\Apytest\b", "python3 -m pytest", in_environment)

    def text(
        self, objective: str, *, schema: str = "", failing: Sequence[str] = ()
    ) -> str:
        """Return the goal file.

        `failing` are tests that fail before any work is done.
        """
        rows: list[_Row] = []
        if schema:
            rows.append((f"#:schema ./{schema}", ""))
        rows += [
            ("# goal check   tests this file and runs the validator once", ""),
            ("# goal run     lets the agent work until the result is verified\n", ""),
            (f"objective = {_toml(objective)}", ""),
            (
                '# success_criteria = ["..."]',
                "for the judge; default: it derives them\n",
            ),
            (f"validator = {_toml(self.command)}", self.why),
            *self._agent_rows(),
            (self._judge_line(), "audits the evidence of what passed"),
            ("max_iterations = 10", "rounds"),
            ('timeout = "1h"\n\n[workspace]', ""),
            *self._workspace_rows(),
        ]
        if failing:
            rows += self._for_a_red_suite(failing)
        lines = ""
        for line, comment in rows:
            lines += (
                f"{line:<{_COMMENT_COLUMN}} # {comment}\n" if comment else f"{line}\n"
            )
        return lines

    def _agent_rows(self) -> list[_Row]:
        agent = self.agent
        # The lines stay comments, so that the file is valid and shows the way.
        if agent is None:
            return [
                ('# agent = "claude"', "or another of goal agents, or a model:"),
                ('# model = "anthropic/claude-sonnet-4-5"', ""),
            ]
        if agent.model:
            return [(f"model = {_toml(agent.model)}", "")]
        names = (agent.name, *agent.fallbacks) if agent.fallbacks else agent.name
        return [(f"agent = {_toml(names)}", "")]

    def _judge_line(self) -> str:
        if not self.judge:
            return '# judge = "openai/gpt-5-mini"'
        return f"judge = {_toml(self.judge)}"

    def _workspace_rows(self) -> list[_Row]:
        rows: list[_Row] = []
        folder = resolved_current_folder()
        # By default, the workspace is the project around a goal file.
        if project_of(folder / DEFAULT) not in (None, folder):
            rows.append(('path = "."', "this folder, not the project around it"))
        editable = self.project.editable
        if editable:
            rows.append(
                (f"# editable = {_toml(editable)}", "all that the agent may change")
            )
        else:
            rows.append(
                ('# protect = ["tests/**"]', "unchanged in checks, besides the tests")
            )
        rows.append(('# sandbox = "auto"', "confines the agent (bubblewrap, Linux)"))
        return rows

    def _for_a_red_suite(self, failing: Sequence[str]) -> list[_Row]:
        """Return lines for a goal that only some of the failing tests are about."""
        more = ""
        if len(failing) > _NAMED:
            more = f", and {len(failing) - _NAMED} more that fail"
        fixes = _toml(tuple(failing[:_NAMED]))
        return [
            (
                (
                    "\n# To fix only some of the failing tests, write this in place of "
                    "validator:"
                ),
                "",
            ),
            ("# [[validators]]", ""),
            (f"# run = {_toml(self.command)}", ""),
            (f"# fixes = {fixes}", f"tests that must pass{more}"),
            ('# known_failures = "baseline"', "other tests may go on failing"),
        ]


def _toml(value: str | tuple[str, ...]) -> str:
    """Return a value as TOML on one line."""
    # TOML shares its strings with JSON, except for DEL.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")

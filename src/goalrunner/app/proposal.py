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
_NAMED = 3
"""Failing tests that a proposal names."""


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
        """Return the module of this folder that `pytest` cannot import; empty if there
        is none.

        `python -m pytest` can.
        """
        if self.as_module == self.command or baseline.event is None:
            return ""
        feedback = "\n".join(
            result.feedback for result in baseline.event.results if not result.passed
        )
        names = re.findall(r"ModuleNotFoundError: No module named '(\w+)", feedback)
        return next(
            (
                name
                for name in names
                if Path(f"{name}.py").is_file() or Path(name).is_dir()
            ),
            "",
        )

    @property
    def as_module(self) -> str:
        """The command with `python -m pytest` of the same environment in place of
        `pytest`.
        """
        in_environment = re.sub(
            r"\A((?:uv|poetry) run |\S+/bin/)pytest\b",
            r"\1python -m pytest",
            self.command,
        )
        return re.sub(r"\Apytest\b", "python3 -m pytest", in_environment)

    def text(
        self, objective: str, *, schema: str = "", failing: Sequence[str] = ()
    ) -> str:
        """Return the goal file.

        `failing` are tests that fail before any work is done.
        """
        agent, editable = self.agent, self.project.editable
        rows = [
            *([(f"#:schema ./{schema}", "")] if schema else []),
            ("# goal check   tests this file and runs the validator once", ""),
            ("# goal run     lets the agent work until the result is verified\n", ""),
            (f"objective = {_toml(objective)}", ""),
            (
                '# success_criteria = ["..."]',
                "for the judge; default: it derives them\n",
            ),
            (f"validator = {_toml(self.command)}", self.why),
        ]
        if agent is None:
            rows.append(
                (
                    '# agent = "claude"',
                    "or another of goal agents, or a model:",
                )
            )
            rows.append(('# model = "anthropic/claude-sonnet-4-5"', ""))
        else:
            names = (agent.name, *agent.fallbacks) if agent.fallbacks else agent.name
            rows.append(
                (
                    f"model = {_toml(agent.model)}"
                    if agent.model
                    else f"agent = {_toml(names)}",
                    "",
                )
            )
        judge = (
            f"judge = {_toml(self.judge)}"
            if self.judge
            else '# judge = "openai/gpt-5-mini"'
        )
        rule = (
            f"# editable = {_toml(editable)}"
            if editable
            else '# protect = ["tests/**"]'
        )
        rows += [
            (judge, "audits the evidence of what passed"),
            ("max_iterations = 10", "rounds"),
            ('timeout = "1h"\n\n[workspace]', ""),
        ]
        here = resolved_current_folder()
        if project_of(here / DEFAULT) not in (None, here):
            rows.append(('path = "."', "this folder, not the project around it"))
        rows += [
            (
                rule,
                "all that the agent may change"
                if editable
                else "unchanged in checks, besides the tests",
            ),
            (
                '# sandbox = "auto"',
                "confines the agent (bubblewrap, Linux)",
            ),
        ]
        if failing:
            rows += self._for_a_red_suite(failing)
        return "".join(
            f"{f'{line:<38} # {comment}' if comment else line}\n"
            for line, comment in rows
        )

    def _for_a_red_suite(self, failing: Sequence[str]) -> list[tuple[str, str]]:
        """Return lines for a goal that only some of the failing tests are about."""
        more = (
            f", and {len(failing) - _NAMED} more that fail"
            if len(failing) > _NAMED
            else ""
        )
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
            (
                f"# fixes = {_toml(tuple(failing[:_NAMED]))}",
                f"tests that must pass{more}",
            ),
            (
                '# known_failures = "baseline"',
                "other tests may go on failing",
            ),
        ]


def _toml(value: str | tuple[str, ...]) -> str:
    """Return a value as TOML on one line; TOML shares its strings with JSON, except for
    DEL.
    """
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")

"""The labels of a run, which say what weakens its result.

Each has a meaning and a cure.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Label(StrEnum):
    """What weakens a result.

    Some labels name what they are about: `checks differ: tests/conftest.py`.
    """

    CHECKS_CHANGED = "checks changed"
    CHECKS_DIFFER = "checks differ"
    PROTECTED_CHANGED = "protected files changed"
    TESTS_REMOVED = "tests removed"
    RESTS_ON_FILES = "rests on changed files"
    RESTS_ON_TESTS = "rests on changed tests"
    NOTHING_CHANGED = "nothing changed"
    PASSED_BEFORE = "checks passed before the change"
    SUPPRESSIONS_ADDED = "suppressions added"
    DEPENDENCIES_CHANGED = "dependencies changed"
    CHANGED_FILES = "validators changed files"
    FLAKY = "flaky"
    NO_TEST_SUMMARY = "no test summary"
    TESTS_FILTERED = "tests filtered"
    NOT_ISOLATED = "not isolated"
    SELF_JUDGED = "self-judged"
    JUDGE_HAD_TOOLS = "judge had tools"
    AGENTS = "agents"
    START_UNKNOWN = "start not recorded"
    GOAL_CHANGED = "goal changed"
    RESTS_ON_REPORTS = "rests on reports"
    REMOTE_CHECKS = "checked remotely"
    UNGUARDED = "unguarded approval"
    UNGUARDED_ANSWER = "unguarded answer"
    UNASKED = "unasked actions"
    HIDDEN_READABLE = "hidden checks readable"
    UNKNOWN_EFFECTS = "unknown effects"
    NOT_AUDITED = "validators green, not audited"
    NO_SNAPSHOTS = "no snapshots"
    WEAKENED_TESTS = "weakened tests"
    DELETED_TESTS = "deleted tests"
    SKIPPED_TESTS = "skipped tests"
    LOST_TESTS = "lost tests"
    VACUOUS_TESTS = "vacuous tests"
    NOT_JUDGED = "criteria not judged"
    CHANGED_OUTSIDE = "changed outside of the workspace"
    OUTSIDE_UNKNOWN = "files outside of the workspace not recorded"
    SIDES_UNKNOWN = "tests of some sides not recorded"
    IN_CLONE = "checked in a clone"

    def about(self, names: str) -> str:
        """Return the label with the names of what it is about: `flaky: tests, lint`."""
        return f"{self}: {names}"

    @property
    def meaning(self) -> str:
        """What the label says about the result."""
        return EXPLANATIONS[self].meaning


class Explanation(NamedTuple):
    """What a label means, and what to do if the result should not have it."""

    meaning: str
    cure: str
    names: str = ""
    """What the label names, for the documentation: "PATHS"."""


# One table for reports, documentation and the page of a run, so that all say the same.
EXPLANATIONS = {
    Label.CHECKS_CHANGED: Explanation(
        "The result rests on the changed version of these checks, which the goal "
        "names or allows, or a review accepted.",
        "Review them with `goal diff`; `protect` keeps the originals.",
        "PATHS",
    ),
    Label.CHECKS_DIFFER: Explanation(
        "These files of the checks were changed; the validators pass with the "
        "originals as well.",
        "Review them with `goal diff`; the last lines print the command that restores "
        "the originals, if all files are named.",
        "PATHS",
    ),
    Label.PROTECTED_CHANGED: Explanation(
        "The run ended without success, and left these protected files in the "
        "workspace as the agent changed them.",
        "The last lines print the command that restores the originals; `[workspace] "
        "allow` lets the agent change them.",
        "PATHS",
    ),
    Label.TESTS_REMOVED: Explanation(
        "The number of tests of the start that are missing or skipped at the end.",
        "Review the tests with `goal diff`; `protect` keeps the originals.",
        "COUNT",
    ),
    Label.RESTS_ON_FILES: Explanation(
        "The validators pass only with these new or changed files, which are neither "
        "source nor protected.",
        "Review them with `goal diff`; `protect` keeps the originals.",
        "PATHS",
    ),
    Label.RESTS_ON_TESTS: Explanation(
        "A threshold, such as the coverage, is reached only with the changed versions "
        "of these tests.",
        "Review them with `goal diff`.",
        "PATHS",
    ),
    Label.NOTHING_CHANGED: Explanation(
        "The validators pass, but no file was changed that git tracks or would add.",
        "Add a validator that fails until the work is done, or a judge.",
    ),
    Label.PASSED_BEFORE: Explanation(
        "The validators passed before the change, and no new test fails without it.",
        "Add a test or validator that fails until the work is done, or a judge.",
    ),
    Label.SUPPRESSIONS_ADDED: Explanation(
        "The number of marks that the change adds and that turn off a check, such as "
        "`# noqa`, `type: ignore` or `skip`.",
        "Review them with `goal diff`.",
        "COUNT",
    ),
    Label.DEPENDENCIES_CHANGED: Explanation(
        "Installed packages, or the files that `setup` installs from, differ from "
        "those at the start of the run.",
        "Install them before the run, or in `setup`.",
        "PACKAGES",
    ),
    Label.CHANGED_FILES: Explanation(
        "A validator rewrote these files, as `ruff --fix` does; the workspace was not "
        "changed.",
        "Use a validator that only checks; files that it has to write are `outputs`.",
        "PATHS",
    ),
    Label.FLAKY: Explanation(
        "These validators passed and failed on the same files; another run decided.",
        "Correct the tests that vary; with `retries = 0` such a validator is red.",
        "NAMES",
    ),
    Label.NO_TEST_SUMMARY: Explanation(
        "A test runner printed a summary at the start of the run, and none now.",
        "Let the validator print it in each run.",
        "NAMES",
    ),
    Label.TESTS_FILTERED: Explanation(
        "The validator itself selects tests, with `-k` or `--testmon` for example.",
        "Run all tests, or add a validator that does.",
        "OPTIONS",
    ),
    Label.NOT_ISOLATED: Explanation(
        "A Python validator ran in the process of the program that started the run.",
        'Name it in the goal as `python = "package.module:function"`; it then runs in '
        "its own process.",
    ),
    Label.SELF_JUDGED: Explanation(
        "Agent and judge are the same model, or the same program and not known to be "
        "different models.",
        "Name another judge with `--judge` or `[judge]`, or the models of both.",
    ),
    Label.JUDGE_HAD_TOOLS: Explanation(
        "The judge is an agent's program of which not all tools can be turned off.",
        "Use a judge without tools: `claude`, or a model with an API key.",
    ),
    Label.AGENTS: Explanation(
        "Another agent took over, because one could not go on; the names are in the "
        "order of their work.",
        "`goal show` says why; name one agent if the result should be the work of one.",
        "NAMES",
    ),
    Label.START_UNKNOWN: Explanation(
        "The agent had worked before the run began; `git diff` shows whether it "
        "changed tests.",
        "Install the Stop hook before the session begins.",
    ),
    Label.GOAL_CHANGED: Explanation(
        "The goal file was changed while the session or the last run worked.",
        "Check it with `git diff`; `goal show` shows the goal of this run.",
    ),
    Label.RESTS_ON_REPORTS: Explanation(
        "There is no validator: the evidence is what the agent reports about its own "
        "work.",
        "Add a validator, whose output the runner itself sees.",
    ),
    Label.REMOTE_CHECKS: Explanation(
        "The validators ran through the command interface of the agent's workspace, "
        "where the agent could have changed them: no check environment, no protected "
        "files, no comparison with the start.",
        "Add a judge, or run the validators on a copy of the work on this machine.",
        "NAMES",
    ),
    Label.UNGUARDED: Explanation(
        "No sandbox confined the agent, so one of its commands could have given the "
        "approval.",
        'Run the agent in a sandbox: `sandbox = "auto"`.',
    ),
    Label.UNGUARDED_ANSWER: Explanation(
        "No sandbox confined the agent, so one of its commands could have given the "
        "answer to a question.",
        "Answer at the terminal of the run, or run the agent in a sandbox.",
    ),
    Label.UNASKED: Explanation(
        "The agent did something without the approval that the goal requires.",
        "Use an agent that asks (`goal agents` shows which do), or a sandbox.",
    ),
    Label.HIDDEN_READABLE: Explanation(
        "The agent could read what the hidden validators check.",
        "Move the checks out of the workspace, and run the agent in a sandbox.",
    ),
    Label.UNKNOWN_EFFECTS: Explanation(
        "The machine of the run was lost in the middle of a round, which was abandoned "
        "and begun anew on another one. What these calls changed outside of the "
        "workspace is not known.",
        "Look at what they may have changed; `goal show` lists them all.",
        "CALLS",
    ),
    Label.NOT_AUDITED: Explanation(
        "A limit ended the run after its validators had passed, before the judge "
        "could be asked.",
        "Resume the run with a higher limit: `goal resume --cost`, `--tokens` or "
        "`--timeout`.",
    ),
    Label.NO_SNAPSHOTS: Explanation(
        "The files of the workspace are not compared: the run has "
        '`records="none"`, or the files are not in a known folder on this machine. The '
        "order of the calls alone says which evidence is outdated.",
        'Keep records: leave `records="none"` out, or write `records="last:20"`; use a '
        "local workspace, and pass `conversation=` to OpenHands' `GoalController`.",
    ),
    Label.WEAKENED_TESTS: Explanation(
        "In a receipt: the number of tests that pass only in the version of the "
        "change, which passes without the change as well.",
        "Compare both versions of these tests, which the receipt names.",
        "COUNT",
    ),
    Label.DELETED_TESTS: Explanation(
        "In a receipt: the number of tests of the base that are not in the head.",
        "Look whether what they tested is gone as well.",
        "COUNT",
    ),
    Label.SKIPPED_TESTS: Explanation(
        "In a receipt: the number of tests that ran on the base and are skipped on "
        "the head.",
        "Let them run again, or delete them.",
        "COUNT",
    ),
    Label.LOST_TESTS: Explanation(
        "In a receipt: the number of tests of the base that pass on the head, and do "
        "not run if the base's version of the checks is put back.",
        "Look at the changed configuration of the tests.",
        "COUNT",
    ),
    Label.VACUOUS_TESTS: Explanation(
        "In a receipt: the number of new tests that pass without the change as well, "
        "so they do not show what it does.",
        "Write tests that fail without the change.",
        "COUNT",
    ),
    Label.NOT_JUDGED: Explanation(
        "In a receipt: the goal has success criteria, and no judge looked for evidence "
        "of them.",
        "Name a judge: `--judge MODEL`.",
    ),
    Label.CHANGED_OUTSIDE: Explanation(
        "In a receipt: the change has these files outside of the workspace, which no "
        "side of the check puts back.",
        "Make the receipt in the folder of the whole repository.",
        "PATHS",
    ),
    Label.OUTSIDE_UNKNOWN: Explanation(
        "In the receipt of a run: the workspace was a folder of the repository, and "
        "the run did not record the files beside it.",
        "Verify the commit: `goal receipt --base COMMIT`.",
    ),
    Label.SIDES_UNKNOWN: Explanation(
        "In the receipt of a run: the run had no reason to run its tests on each side, "
        "so what some of them show is not known.",
        "Verify the commit: `goal receipt --base COMMIT`.",
    ),
    Label.IN_CLONE: Explanation(
        "In a receipt: no overlay was possible, and the checks ran in a clone. "
        "Absolute paths, as in an editable install, lead to the work tree instead.",
        "Let `[workspace] setup` install what the validators need, or allow user "
        "namespaces.",
    ),
}
"""The meaning of each label, and its cure."""


# Labels of the validators' results. A review cannot cure others, such as `self-judged`.
REVIEWABLE = (
    Label.RESTS_ON_FILES,
    Label.RESTS_ON_TESTS,
    Label.TESTS_REMOVED,
    Label.CHECKS_DIFFER,
    Label.SUPPRESSIONS_ADDED,
    Label.NOTHING_CHANGED,
    Label.PASSED_BEFORE,
    Label.DEPENDENCIES_CHANGED,
    Label.CHANGED_FILES,
    Label.FLAKY,
    Label.NO_TEST_SUMMARY,
    Label.TESTS_FILTERED,
)
"""The labels of checks that a goal may have reviewed."""

STRICT_LABELS = (
    # Changed files and changed tests.
    "rests on",
    Label.TESTS_REMOVED,
    Label.CHECKS_DIFFER,
    Label.SUPPRESSIONS_ADDED,
    Label.NOTHING_CHANGED,
    Label.PASSED_BEFORE,
)
"""The beginnings of the labels that `goal run --strict` has reviewed: the agent's work
may have caused them."""


def begins_with(label: str, name: str) -> bool:
    """Return whether a label begins with these words.

    `rests on changed files: x` begins with `rests on`.
    """
    return f"{label.replace(':', ' ')} ".startswith(f"{name} ")


def label_in(text: str) -> Label | None:
    """Return the label that a text of a log begins with.

    None for a label of a later version.
    """
    name = text.partition(":")[0]
    return next((label for label in Label if label == name), None)

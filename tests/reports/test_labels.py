"""Labels of a run are explained in a sentence each."""

from __future__ import annotations

import re
from pathlib import Path

from goalrunner.app.build import SELF_JUDGED
from goalrunner.app.checker import CHANGED_FILES, NEEDED_IGNORED, NOT_ISOLATED
from goalrunner.core.approval_state import REPORTED_LABEL, UNASKED_LABEL, UNGUARDED
from goalrunner.reports.next_steps import label_lines

README = Path(__file__).parents[2] / "README.md"


def test_every_label_has_a_meaning() -> None:
    named = re.findall(r"^\| `([a-z -]+)[:`]", README.read_text(), re.MULTILINE)
    assert "checks changed" in named
    for label in (
        *named,
        SELF_JUDGED,
        REPORTED_LABEL,
        UNASKED_LABEL,
        UNGUARDED,
        NEEDED_IGNORED,
        CHANGED_FILES,
        NOT_ISOLATED,
    ):
        if label in ("chat", "claude", "codex", "gemini", "opencode", "qwen", "openhands", "command", "acp"):
            continue
        if label not in ("complete", "capped", "blocked", "failed", "cancelled"):
            assert len(list(label_lines([label]))) == 2, label


def test_the_command_that_restores_files_is_announced_only_if_it_follows() -> None:
    label = "not verified: tests/test_a.py"
    assert next(reversed([*label_lines([label], restores=True)])).text.endswith("To put the originals back:")
    assert "originals." in next(reversed([*label_lines([label])])).text


def test_an_unknown_label_stands_alone() -> None:
    assert [fact.text for fact in label_lines(["of a later version: x"])] == ["of a later version: x"]

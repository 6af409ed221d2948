"""`goal help`: the pages of the documentation in the terminal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from goalrunner.cli import output
from goalrunner.cli.app import help_
from goalrunner.core.errors import UsageError

DOCS = Path(__file__).parents[2] / "docs"


def test_every_page_is_listed_with_its_title(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert help_() == 0
    listed = capsys.readouterr().out
    assert {page.stem for page in DOCS.rglob("*.md")} == {
        line.split()[2] for line in listed.splitlines() if line.startswith("goal help ")
    }
    assert "goal help labels" in listed
    assert "  Labels\n" in listed


def test_in_a_pipe_a_page_is_the_file_itself(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert help_("labels") == 0
    assert capsys.readouterr().out == (DOCS / "reference" / "labels.md").read_text()


def test_no_page_shows_the_comments_of_its_file(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "<!--" in (DOCS / "how-to" / "agents.md").read_text()
    assert help_("agents") == 0
    assert "<!--" not in capsys.readouterr().out


def test_at_a_terminal_it_is_rendered(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr(output, "columns", lambda stream=None: 80)
    monkeypatch.setattr(output, "has_colours", lambda: False)
    monkeypatch.setenv("PAGER", "cat")
    assert help_("labels") == 0
    shown = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert "Labels" in shown
    assert "|---|" not in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_the_name_of_a_command_shows_its_help(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert help_("prune") == 0
    assert "--older-than" in capsys.readouterr().out
    assert help_("judge") == 0
    assert "canary" in capsys.readouterr().out
    assert help_("forget") == 0
    assert (
        capsys.readouterr().err
        == "goal forget is now goal memory forget; the earlier name will be removed\n"
    )


def test_an_unknown_page_is_an_error_with_the_nearest_one() -> None:
    with pytest.raises(UsageError) as refused:
        help_("sandbx")
    assert (refused.value.message, refused.value.hint) == (
        "there is no page sandbx",
        "goal help sandbox",
    )

from __future__ import annotations

import codecs
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from typer.main import get_command

from goalrunner import __version__
from goalrunner.cli import output
from goalrunner.cli.app import COMMANDS, EXAMPLES, RENAMED, app
from goalrunner.cli.main import main
from goalrunner.core.errors import (
    ExitCode,
    GoalError,
    ProviderUnavailable,
    RecordError,
    UsageError,
)
from tests.support.scripted_api import ScriptedApi


@pytest.fixture
def goal_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "objective.toml"
    path.write_text(
        'objective = "Make it."\nvalidator = "true"\nmodel = "openai/gpt-5"\n'
    )
    return str(path)


def test_help_names_the_commands_and_the_exit_codes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--help"]) == 0
    assert capsys.readouterr().out == dedent("""\
        Usage: goal [OPTIONS] COMMAND [ARGS]...

          Run an AI agent in rounds until it is verified that the goal is met.

        Options:
          --version             Print the version and exit.
          --install-completion  Install completion for the current shell.
          --show-completion     Show completion for the current shell, to copy it or
                                customize the installation.
          -h, --help            Show this message and exit.

        Run:
          demo     Run an example goal in a new temporary folder; needs no key.
          init     Write goal.toml for the project in the current folder.
          check    Check a goal file and run its validators once; spend nothing.
          run      Work on a goal until it is proven complete or a limit stops it.
          resume   Continue a run: after a crash, Ctrl-C, a limit or a decision.
          batch    Run many goals, each in a copy of its workspace, several at a time.

        Inspect:
          list     List the runs of this workspace, newest first.
          status   Print the state of a run, or judge a saved transcript.
          audit    Judge many saved transcripts: files, folders or patterns.
          show     Show what happened in a run, round by round.
          watch    Follow a running run or batch from another terminal.
          diff     Print what a run or a round changed, as a unified patch.
          report   Write a run as one HTML file that needs no network.
          export   Write a verified change as a patch or a branch, or goals as jobs.
          verify   Check offline that the records of a run are intact.

        Decide:
          approve  Approve an action or a result that waits for a person.
          deny     Deny an action or a result that waits for a person.
          answer   Answer an open question of a run.
          note     Give the agent of a run a note with its next prompt, from any
                   terminal.
          cancel   End a run or a batch permanently, from any terminal.
          apply    Bring the verified change of a run into its workspace.
          discard  Remove the copy of a run.
          restore  Restore the workspace to the end of a round.

        More:
          agents, judge, memory, receipt, fleet, hook, prune, schema, help

          Exit codes: 0 complete, 1 capped, 2 usage or goal file, 3 blocked, 4 failed,
          129, 130 and 143 by signal.
        """)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_begins_with_its_summary(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*name.split(), "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"Usage: goal {name} [OPTIONS]")
    assert lines[2] == f"  {COMMANDS[name][1]}"
    assert EXAMPLES.get(name, lines[-1].strip()) == lines[-1].strip()
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_a_valid_command_line(name: str) -> None:
    words = shlex.split(EXAMPLES[name].partition(" | ")[0].partition(" > ")[0])[1:]
    count = len(name.split())
    assert words[:count] == name.split()
    named(name).make_context(name, words[count:]).close()


def named(name: str) -> Any:
    """The command of a name of one or two words."""
    command: Any = get_command(app)
    for word in name.split():
        command = command.get_command(None, word)
    return command


@pytest.mark.parametrize(
    ("line", "code", "summaries"),
    [
        ("judge", 2, ["Measure how often judges", "Test whether a judge"]),
        ("judge --help", 0, ["Measure how often judges", "Test whether a judge"]),
        ("memory -h", 0, ["List the facts", "Keep a fact", "Remove a kept fact"]),
        (
            "receipt -h",
            0,
            ["Verify a change", "goal receipt make -h lists its"],
        ),
    ],
)
def test_the_help_of_a_group_lists_its_commands(
    line: str, code: int, summaries: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line.split()) == code
    streams = capsys.readouterr()
    shown = streams.out + streams.err
    assert shown.startswith(
        f"Usage: goal {line.split()[0]} [OPTIONS] COMMAND [ARGS]...\n"
    )
    assert [summary for summary in summaries if summary not in shown] == []


@pytest.mark.parametrize("name", RENAMED)
def test_an_earlier_name_works_and_names_the_new_one(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([name, "--help"]) == 0
    streams = capsys.readouterr()
    new = RENAMED[name][1]
    assert (
        streams.err
        == f"goal {name} is now goal {new}; the earlier name will be removed\n"
    )
    assert name not in named("").commands
    words = new.removesuffix(" AGENT")
    assert {option.name for option in named(name).params} == {
        option.name for option in named(words).params
    }


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"goal {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["lst"], "No such command 'lst'. Did you mean 'list'?"),
        (["memory", "lst"], "No such command 'lst'. Did you mean 'list'?"),
        (
            ["measure"],
            "Error: goal measure was removed\ngoal verify RUN checks the records of a run",
        ),
        (["run", "--modle", "x"], "No such option: --modle"),
        (["list", "--jsn"], "No such option: --jsn"),
        (["list", "more"], "goal list takes no argument without --batch"),
        (["run", "--timeout"], "Option '--timeout' requires an argument."),
    ],
)
def test_a_mistyped_command_line_is_a_usage_error(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    streams = capsys.readouterr()
    assert said in streams.err
    assert streams.out == ""


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("what", "how"), 2),
        (ProviderUnavailable("what", "how"), 4),
        (RecordError("what", "how"), 4),
        (GoalError("what", "how"), 4),
    ],
)
def test_an_expected_failure_is_an_error_with_its_code(
    goal_file: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: GoalError,
    code: int,
) -> None:
    ScriptedApi([error]).install(monkeypatch)
    assert main(["run", goal_file]) == code
    assert capsys.readouterr().err == "Error: what\nhow\n"


def test_a_providers_words_do_not_reach_the_terminal_raw(
    goal_file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ScriptedApi([ProviderUnavailable("\x1b]0;owned\x07busy \x1b[31mnow")]).install(
        monkeypatch
    )
    main(["run", goal_file])
    assert capsys.readouterr().err == "Error: busy now\n"


def test_ctrl_c_before_the_run_is_130(
    goal_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ScriptedApi([KeyboardInterrupt()]).install(monkeypatch)
    assert main(["run", goal_file]) == ExitCode.INTERRUPTED


def test_a_defect_is_a_traceback_without_secrets(
    goal_file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-very-secret-value")
    ScriptedApi([ValueError("two\nlines with sk-very-secret-value")]).install(
        monkeypatch
    )
    assert main(["run", goal_file]) == 4
    said = capsys.readouterr().err
    assert said.startswith("Traceback (most recent call last):\n")
    assert "ValueError: two\nlines with [redacted:SOME_API_KEY]\n" in said
    assert (
        f"\nError: internal error, a defect of goal {__version__}; please report it"
        in said
    )
    assert "sk-very-secret-value" not in said


def test_a_reader_that_has_read_enough_ends_it_quietly(own_home: Path) -> None:
    for number in range(3):
        (own_home / "runs" / f"run{number}").mkdir(parents=True)
    reading, writing = os.pipe()
    os.close(reading)
    ran = subprocess.run(
        [sys.executable, "-m", "goalrunner", "list", "--all"],
        stdout=writing,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writing)
    assert (ran.returncode, ran.stderr) == (141, b"")


def test_a_stream_that_lacks_our_characters_is_no_failure() -> None:
    ran = subprocess.run(
        [
            sys.executable,
            "-c",
            "from goalrunner.cli import output; output.prepare(); output.say('✓ ✗ ☃ done\\n')",
        ],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=True,
    )
    assert ran.stdout == b"+ x ? done\n"


def test_a_closed_stderr_hides_no_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    output.complain("unheard")
    assert main(["run", "--dry-run", "no.toml"]) == 2


def test_it_is_a_module_too() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "goalrunner", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == f"goal {__version__}\n"


@pytest.mark.parametrize(
    "value",
    [
        "foo",
        pytest.param("", marks=pytest.mark.slow),
        pytest.param("-1", marks=pytest.mark.slow),
        pytest.param("1e9", marks=pytest.mark.slow),
    ],
)
def test_no_option_shows_the_words_of_a_library_for_a_wrong_value(
    value: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in COMMANDS:
        for parameter in named(name).params:
            if parameter.param_type_name == "option" and not parameter.is_flag:
                # After the values of options, too many arguments are an error, so that no command begins.
                main(
                    [
                        *name.split(),
                        parameter.opts[0],
                        *[value] * parameter.nargs,
                        *["x"] * 9,
                    ]
                )
    said = capsys.readouterr()
    assert "Error: " in said.err
    assert (
        re.findall(
            r".*(?:Input should|Value error|Traceback|not one of).*",
            said.out + said.err,
        )
        == []
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["list", "-n", "0"], '"0" is not valid; use a whole number from 1'),
        (["list", "--workspace", ""], "--workspace is empty"),
        (["diff", "k3f9", "two"], '"two" is not valid; use a whole number from 0'),
        (
            ["judge", "calibrate", "x", "--judge", "m", "--target-false-accept", "nan"],
            '"nan" is not valid; use a number from 0 to 1',
        ),
        (
            ["memory", "add", "k3f9", "o1", "--kind", "foo"],
            '"foo" is not valid; use event, fact, preference, policy_reference',
        ),
        (
            ["init", "--yes", "--validator", ""],
            "--validator is empty; write something, or remove it",
        ),
        (
            ["init", "--yes", "--objective", "\udcff"],
            "--objective contains bytes that are not UTF-8",
        ),
        (
            ["export", "--patch", "--base", "main"],
            "add --branch NAME, or remove --base",
        ),
        (
            ["hook", "install", "claude", "--goal", "goal.tmol"],
            "--goal goal.tmol: there is no such file",
        ),
    ],
)
def test_a_wrong_value_is_named_with_what_is_valid(
    arguments: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    assert said in capsys.readouterr().err


def test_pages_and_signs_have_an_ascii_form_so_that_no_mark_is_a_question() -> None:
    output.prepare()
    pages = Path(__file__).parents[2] / "docs"
    signs = {
        sign
        for page in pages.rglob("*.md")
        for sign in page.read_text()
        if not sign.isascii()
    }
    assert "✓" in signs
    for sign in (signs | set("✅❌→…")) - set(
        "⠋"
    ):  # a frame of the spinner, which is another one without Unicode
        shown, _ = codecs.lookup_error("goal")(
            UnicodeEncodeError("ascii", sign, 0, 1, "")
        )
        assert "?" not in str(shown), sign

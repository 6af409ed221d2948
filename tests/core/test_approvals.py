"""Which actions wait for a person, by their words alone."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

import pytest
from pydantic import ValidationError

from goalrunner.core.approval_rules import (
    completion_rule,
    expires_at,
    is_late,
    rule_for,
)
from goalrunner.core.events import RunRules
from goalrunner.core.goal_tables import Approvals

PATTERNS = (
    "git push*",
    "rm -rf *",
    "curl *",
    "pip install*",
    "touch *",
    "kubectl delete*",
)


def rule(command: str, *patterns: str) -> str:
    return rule_for("shell", command, Approvals(commands=patterns or PATTERNS), "low")


@pytest.mark.parametrize(
    "command",
    [
        "git push",
        "  git   push  origin",
        "/usr/bin/git push",
        "cd a && git push",
        "ls\ngit push",
        "ls \\\n && git \\\n push",
        "cat <<'EOF' > f\nhi\nEOF\ngit push",
        "git -C . push",
        "git -c a=b --no-pager push origin",
        "kubectl -n prod delete pod x",
        "sh -c 'git push'",
        'bash -lc "git push"',
        "sudo git --git-dir .git push",
        "sudo -u bob curl x",
        "FOO=1 env BAR=1 curl x",
        "cu''rl x",
        "c\\url x >out 2>&1",
        "python3 -m pip install x",
        "busybox rm -rf x",
        "find . -exec rm -rf {} +",
        # An argument may be what the pattern names.
        "echo push | xargs git",
        "xargs -I % git % origin < f",
        "git $SUBCOMMAND",
        "g=push; git pu$X",
        "git pu{sh,ll}",
        "rm $FLAGS x",
        "git pus? origin",
        "git [p]ush",
    ],
)
def test_a_pattern_is_found_wherever_the_command_stands(command: str) -> None:
    assert rule(command) in {
        f'[approvals] commands = ["{pattern}"]' for pattern in PATTERNS
    }


@pytest.mark.parametrize(
    "command",
    [
        "pytest -q",
        'git commit -m "$MESSAGE"',
        "git commit -m 'curl it; git push'",
        "git commit -m \"$(cat <<'EOF'\nit's `x`, and git push\nEOF\n)\"",
        "git log --grep push",
        "find . -name '*.pyc' -exec rm {} +",
        "xargs rm -f < list",
        'rm -f "$FILE"',
        'echo "git push" curl',
        "echo x | xargs grep curl",
        "command -v curl",
        "parallel --version",
        "cat > f <<'EOF'\ngit push\nEOF",
        "# it's a file\ncat >f <<'E'\n\\x touch\nit touch y\nE\nls",
        "python - <<'EOF' 2>&1 | tail\nprint('rm -rf x')\nEOF",
        "printf 'touch x\n\\touch y'",
        "grep -r sudo .",
        "bash -lc 'cd $HOME && make'",
        "bash -euo pipefail -c 'rm -f *.pyc && git add *.py'",
        '"$VENV/bin/python" -m pytest',
        "check() { ls; }; case $1 in a) check;; esac",
        "ls \\\n -l",
    ],
)
def test_an_honest_command_is_not_asked_about(command: str) -> None:
    assert rule(command) == rule(command, "* --force") == ""


def test_a_pattern_without_a_star_is_the_whole_command() -> None:
    assert rule("git pushed", "git push", "git push *") == ""


@pytest.mark.parametrize(
    "command",
    [
        "$TOOL x",
        "curl 'unclosed",
        "cat f | sh",
        "bash <<E\ncurl x\nE",
        'bash -c "$LINE"',
        'bash -c "ls $DIRECTORY"',
        "eval ls",
        "echo $(date)",
        "echo `date`",
        'echo "$(date)"',
        "cat <<E\n$(date)\nE",
        ". <(echo ls)",
        "alias c=curl; c x",
        "parallel ::: ls",
        # Shells read these options in their own way.
        "bash +e -c 'git push'",
        "sh -c - 'git push'",
        "sh -c +e 'git push'",
        "bash -oc errexit 'git push'",
        "((ls) && (ls))",
    ],
)
def test_a_command_that_is_not_understood_needs_approval_where_commands_do(
    command: str,
) -> None:
    assert "cannot be parsed" in rule(command, "git push*")
    assert (
        rule_for("shell", command, Approvals(require=("complete", "write")), "low")
        == ""
    )


_UNPARSED = "((a=1)) <<<x; [ a == b ]"
"""A line that bash runs and that is not read."""


@pytest.mark.parametrize(
    "command",
    [
        "true\n\\touch pushed",
        "true\n\\\ntouch pushed",
        "2>&1 <<'W' touch pushed\nW\nls",
        ">x <<'W' touch pushed\nW\ntrue",
        "! >x # note\ntouch pushed",
        "true &>x touch pushed",
        ">x <<'W' true\nW\necho \"\n<<E ;\"\ntouch pushed\nE",
        f"# it's\necho 'x <<EOF\n'\n{_UNPARSED}\ntouch pushed\n: '\nEOF\necho '",
        f"cat <<'A B'\nit's\nA B\necho 'x <<EOF\n'\n{_UNPARSED}\ntouch pushed\n: '\nEOF\necho '",
        f"echo \"$(echo \"a'b\")\" 'x <<EOF\n'\n{_UNPARSED}\ntouch pushed\n: '\nEOF\necho '",
        "echo '$(cat <<'EOF'\n'; touch pushed; '\nEOF\n)'",
        "echo 'touch pushed' | parallel",
        "((touch pushed) && (ls))",
    ],
)
def test_a_command_cannot_hide_behind_the_end_of_a_line_or_a_redirection(
    command: str,
) -> None:
    assert rule(command, "touch *").startswith("[approvals] commands = [")


def test_kinds_and_risk_ask() -> None:
    command: tuple[Literal["shell"], str] = ("shell", "ls")
    file: tuple[Literal["write"], str] = ("write", "a.py")
    assert (
        rule_for(*command, Approvals(), "high")
        == rule_for(*file, Approvals(require=("shell",)), "low")
        == ""
    )
    assert (
        rule_for(*command, Approvals(require=("shell",)), "low")
        == '[approvals] require = ["shell"]'
    )
    assert (
        rule_for(*file, Approvals(require=("write",)), "low")
        == '[approvals] require = ["write"]'
    )
    assert (
        rule_for(*command, Approvals(), "critical")
        == rule_for(*file, Approvals(), "critical")
        != ""
    )
    assert completion_rule(Approvals(), "medium") == ""
    assert completion_rule(Approvals(require=("complete",)), "low")
    assert completion_rule(Approvals(), "high")


def test_expiry_is_by_the_clock() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    until = expires_at(Approvals(expires=60), now)
    assert not is_late(until, now + timedelta(seconds=60))
    assert is_late(until, now + timedelta(seconds=60, microseconds=1))
    assert expires_at(Approvals(expires=None), now) is None
    assert not is_late(None, now)


def test_a_run_of_before_that_asked_about_the_network_asks_about_every_command() -> (
    None
):
    kept = {"require": ["network", "complete"], "commands": ["git push*"]}
    approvals = RunRules.model_validate({"approvals": kept}).approvals
    assert approvals.require == ("shell", "complete")
    with pytest.raises(ValidationError, match="network = false"):
        Approvals.model_validate(kept)


@pytest.mark.bench
def test_a_hostile_command_is_looked_at_in_time() -> None:
    began = time.thread_time()
    for command in (
        "$(`" * 5000,
        "find -exec " * 3000,
        "sh -c '" * 3000,
        "nohup " * 3000,
        "<<A " * 2000 + "\n" * 3000,
    ):
        rule(command)
    assert time.thread_time() - began < 10


PIECES = (
    "git push", "git push", "git push", "git push", "git ", "push", "x ", " ", "\n", ";", " && ", " || ", " | ", "& ", "(",
    ")", "{ ", "; }", "! ", " #", "'", '"', "\\", "<<E", "<<'E'", "<<-E", "\nE\n", "E", ">f ", "2>&1 ", "&>f ", "<(", "$(",
    "`", "$", "${x}", "${x:-", "}", "$((", "))", "if x;", "then ", "else ", "; fi", "for a in b;", "while y;", "do ",
    "; done", "case x in x) ", ";; ", "esac", "f() ", "A=1 ", "echo ", "sh -c ", "env ", "[[ ", " ]]", "\\\n", "\t", "=",
    "'\\''",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_no_generated_line_runs_a_command_that_was_not_asked_about(
    tmp_path: Path, shell: str
) -> None:
    path, pushed, workspace = (
        tmp_path / "bin",
        tmp_path / "pushed",
        tmp_path / "workspace",
    )
    for folder in (path, workspace):
        folder.mkdir()
    for name, script in {
        "git": f'[ "$1" = push ] && touch {pushed}',
        "x": "true",
    }.items():
        (path / name).write_text(f"#!/bin/sh\nPATH={os.environ['PATH']}\n{script}\n")
        (path / name).chmod(0o755)
    for name in ("sh", "env"):
        (path / name).symlink_to(str(shutil.which(name)))
    choice = random.Random(0)
    for _ in range(20_000):
        line = "".join(choice.choices(PIECES, k=choice.randint(2, 12)))
        if "git" in line and not rule(line, "git push*"):
            command = [str(shutil.which(shell)), "-c", line]
            subprocess.run(
                command,
                cwd=workspace,
                env={"PATH": str(path)},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=60,
            )
            assert not pushed.exists(), line

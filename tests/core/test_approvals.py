"""Which actions wait for a person, by their words alone."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Literal

import pytest

from goalrunner.core.goal_tables import Approvals
from goalrunner.core.limits import completion_rule, expires_at, is_late, rule_for

_UNPARSED = "((a=1)) <<<x; [ a == b ]"
"""A line that bash runs and that the parser of shell lines does not understand."""

NETWORK = (
    "curl x",
    "/usr/bin/curl x",
    "git -C x push",
    "git -c a=b --git-dir y push origin",
    "FOO=1 curl x",
    "env FOO=1 curl x",
    "sudo -u bob wget x",
    "cd a && git fetch",
    "echo $(curl x)",
    'echo "$(curl x)"',
    'bash -lc "git push"',
    "pip install x",
    "python3 -m pip install x",
    "python -m pip install -q x",
    "uv pip install x",
    "uv --directory y sync",
    "npm i",
    "cu''rl x",
    "c\\url x",
    '"curl" x',
    "exec 3<>/dev/tcp/1.2.3.4/80",
    "a=b c=d git pull",
    "docker pull x",
    "go get x",
    "go mod download",
    "curl x >out 2>&1",
    "cat <<'EOF' > f\nhi\nEOF\ncurl x",
    "ls\ncurl x",
    "ls \\\n && curl \\\n x",
    "cat > f <<-E\n\thi\n\tE\ngit push",
    'echo "a$(echo "b$(curl x)")"',
    "git $SUBCOMMAND",
    "echo push | xargs git",
    "poetry -n install",
    "npm -w web install",
    "kubectl -n prod delete pod x",
)
LOCAL = (
    "echo curl",
    "grep -r http .",
    "git log --grep=fetch",
    "git status",
    "go test ./get",
    'echo "git push"',
    "pip list",
    "ls curl",
    "cat wget.py",
    "python -m http.server",
    "npm run build",
    "make install",
    "git commit -m 'curl it; git push'",
    "echo 'a; curl x'",
    "docker ps",
    "cat > f <<'EOF'\ncurl x\nEOF",
    "python - <<'EOF'\nimport curl\nEOF",
    "command -v curl",
    "which curl wget",
    "echo x | xargs grep curl",
)


def reaches_network(command: str) -> bool:
    return rule_for("shell", command, Approvals(require=("network",)), "low") == '[approvals] require = ["network"]'


@pytest.mark.parametrize("command", NETWORK)
def test_a_command_that_names_a_network_program_is_known(command: str) -> None:
    assert reaches_network(command)


@pytest.mark.parametrize("command", LOCAL)
def test_a_command_that_only_speaks_of_one_is_not(command: str) -> None:
    assert not reaches_network(command)


@pytest.mark.parametrize("command", ["python -c 'import urllib.request'", "./deploy.sh"])
def test_what_is_not_in_the_table_passes(command: str) -> None:
    assert not reaches_network(command)
    assert rule_for("shell", command, Approvals(require=("network",)), "low") == ""


@pytest.mark.bench
def test_a_hostile_command_is_looked_at_in_time() -> None:
    began = time.thread_time()
    for command in ("$(`" * 5000, "find -exec " * 3000, "sh -c '" * 3000, "nohup " * 3000, "<<A " * 2000 + "\n" * 3000):
        reaches_network(command)
    assert time.thread_time() - began < 10


@pytest.mark.parametrize(
    "command", ["git push", "  git   push  origin", "cd a && git push", "/usr/bin/git push", "sh -c 'git push'"]
)
def test_a_pattern_is_found_wherever_the_command_stands(command: str) -> None:
    rule = rule_for("shell", command, Approvals(commands=("git push*",)), "low")
    assert rule == '[approvals] commands = ["git push*"]'


@pytest.mark.parametrize(
    "command",
    [
        "git -C . push",
        "git -c a=b --no-pager push origin",
        "sudo git --git-dir .git push",
        "env -S 'git -C . push'",
        "echo push | xargs git",
        "xargs -I % git % origin < f",
        "git $SUBCOMMAND",
        "g=push; git pu$X",
        "npx -c 'rm -rf /'",
        "rm $FLAGS x",
        "busybox rm -rf x",
    ],
)
def test_a_pattern_is_found_behind_options_and_where_an_argument_may_match_it(command: str) -> None:
    approvals = Approvals(commands=("git push*", "rm -rf *"))
    assert rule_for("shell", command, approvals, "low").startswith("[approvals] commands = [")


@pytest.mark.parametrize(
    "command",
    [
        'git commit -m "$MESSAGE"',
        "git log --grep push",
        "find . -name '*.pyc' -exec rm {} +",
        "xargs rm -f < list",
        'rm -f "$FILE"',
        'echo "git push"',
        "cat > f <<'EOF'\ngit push\nEOF",
        "python - <<'EOF' 2>&1 | tail\nprint('rm -rf x')\nEOF",
        "grep -r sudo .",
        '"$VENV/bin/python" -m pytest',
    ],
)
def test_an_honest_command_is_not_asked_about(command: str) -> None:
    assert rule_for("shell", command, Approvals(commands=("git push*", "rm -rf *", "* --force")), "low") == ""


@pytest.mark.parametrize(
    "command",
    ["$TOOL x", "curl 'unclosed", "cat f | sh", "bash <<E\ncurl x\nE", 'bash -c "$LINE"', "alias c=curl; c x"],
)
def test_a_command_that_is_not_understood_needs_approval_where_commands_do(command: str) -> None:
    assert "cannot be parsed" in rule_for("shell", command, Approvals(commands=("git push*",)), "low")
    assert rule_for("shell", command, Approvals(require=("network",)), "low").startswith(
        '[approvals] require = ["network"]'
    )
    assert rule_for("shell", command, Approvals(require=("complete", "write")), "low") == ""


@pytest.mark.parametrize("command", ["git pushed", "echo git push", "git status"])
def test_a_pattern_does_not_catch_other_commands(command: str) -> None:
    assert rule_for("shell", command, Approvals(commands=("git push", "git push *")), "low") == ""


@pytest.mark.parametrize(
    "command",
    [
        "true\n\\touch pushed",
        "true\n\\\ntouch pushed",
        "2>&1 <<'W' touch pushed\nW\nls",
        ">x <<'W' touch pushed\nW\ntrue",
        "! >x # note\ntouch pushed",
        ". <(echo touch pushed)",
        ">x <<'W' true\nW\necho \"\n<<E ;\"\ntouch pushed\nE",
        f"# it's\necho 'x <<EOF\n'\n{_UNPARSED}\ntouch pushed\n: '\nEOF\necho '",
        f"cat <<'A B'\nit's\nA B\necho 'x <<EOF\n'\n{_UNPARSED}\ntouch pushed\n: '\nEOF\necho '",
        f"echo \"$(echo \"a'b\")\" 'x <<EOF\n'\n{_UNPARSED}\ntouch pushed\n: '\nEOF\necho '",
        "parallel ::: ls 'touch pushed'",
        "echo 'touch pushed' | parallel",
        f"# it's\necho 'x <<EOF\n'\n{_UNPARSED}\ntouch pushed; if true; then\n: ;fi\n: '\nEOF\necho '",
        "((touch pushed) && (ls))",
    ],
)
def test_a_command_cannot_hide_behind_the_end_of_a_line_or_a_redirection(command: str) -> None:
    approvals = Approvals(commands=("touch *",))
    assert rule_for("shell", command, approvals, "low").startswith("[approvals] commands = [")


@pytest.mark.parametrize(
    "command",
    [
        "true\nls",
        "printf 'touch x\n\\touch y'",
        "cat >f <<'E'\n\\x touch\nit touch y\nE\nls",
        "ls \\\n -l",
        "# it's a file\ncat >f <<'E'\n\\x touch\nit touch y\nE\nls",
        "echo \"$(date): $HOME\"\ncat >f <<'E'\n\\x touch\nit's\nE\ncat >g <<'E'\n\\x touch\nE\nls",
        "parallel --version",
    ],
)
def test_a_command_of_several_lines_is_not_asked_about(command: str) -> None:
    assert rule_for("shell", command, Approvals(commands=("touch *",)), "low") == ""


def test_kinds_and_risk_ask() -> None:
    command: tuple[Literal["shell"], str] = ("shell", "ls")
    file: tuple[Literal["write"], str] = ("write", "a.py")
    assert rule_for(*command, Approvals(), "high") == rule_for(*file, Approvals(require=("shell",)), "low") == ""
    assert rule_for(*command, Approvals(require=("shell",)), "low") == '[approvals] require = ["shell"]'
    assert rule_for(*file, Approvals(require=("write",)), "low") == '[approvals] require = ["write"]'
    assert rule_for(*command, Approvals(), "critical") == rule_for(*file, Approvals(), "critical") != ""
    assert rule_for("shell", "curl x", Approvals(require=("network",)), "low") != ""
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

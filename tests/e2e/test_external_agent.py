"""`goal` over an agent that is a program of its own: a shell script, seen from a shell."""

from __future__ import annotations

from pathlib import Path

from tests.support.command_line import WITH_PLAIN, outcome_of
from tests.support.forking import goal
from tests.support.recordings import judge, quote, recording

SCRIPT = """#!/bin/sh
# Each round adds a line; the third makes the goal hold. Its words and its exit code are claims alone.
cat > told
echo line >> work
[ "$(wc -l < work)" -ge 3 ] && touch done
echo "It is all done!"
exit 0
"""

GOAL = """objective = "make done"
validator = "test -e done"
{extra}
[agent]
use = "command"
command = "./agent.sh"
[workspace]
path = "."
"""


def prepare(place: Path, script: str = SCRIPT, extra: str = "") -> Path:
    """The goal file; the agent lies in the workspace."""
    (place / "agent.sh").write_text(script)
    (place / "agent.sh").chmod(0o755)
    path = place / "goal.toml"
    path.write_text(GOAL.format(extra=extra))
    return path


def test_a_script_reaches_the_goal_and_its_word_counts_for_nothing(place: Path, own_home: Path) -> None:
    ended = goal("run", prepare(place), cwd=place)
    assert ended.code == 0, ended
    assert "command · ./agent.sh" in ended.out
    assert "the history is sent again" in ended.out
    outcome = outcome_of(own_home)
    assert (outcome["status"], outcome["iterations"]) == ("complete", 3)
    assert outcome["usage"]["agent"]["cost_usd"] is None
    assert "> It is all done!" in (place / "told").read_text()


def test_a_dry_run_names_the_agent_and_starts_nothing(place: Path, own_home: Path) -> None:
    ended = goal("run", prepare(place), "--dry-run", cwd=place)
    assert (ended.code, "command · ./agent.sh" in ended.out) == (0, True), ended
    assert not (place / "told").exists()
    (place / "agent.sh").unlink()
    missing = goal("run", place / "goal.toml", "--dry-run", cwd=place)
    assert (missing.code, "./agent.sh: not found" in missing.err) == (4, True), missing


def test_an_agent_with_a_preset_of_the_goals_own(place: Path, own_home: Path) -> None:
    path = prepare(place)
    (place / "agent.sh").write_text(
        """#!/bin/sh
echo '{"type": "session", "id": "s1"}'
echo '{"type": "call", "id": "t1", "tool": "Bash", "command": "ls '"$*"'"}'
echo '{"type": "result", "id": "t1", "output": "a.py", "exit_code": 0}'
echo '{"type": "text", "text": "ok"}'
[ "$1" = --go-on ] && touch done
exit 0
"""
    )
    path.write_text(
        """objective = "make done"
validator = "test -e done"
agent = "mine"
[workspace]
path = "."
[agents.mine]
argv = ["./agent.sh", "{args}"]
resume = ["./agent.sh", "--go-on", "{session}"]
stream = "plain"
"""
    )
    ended = goal("run", path, cwd=place, env=WITH_PLAIN)
    assert ended.code == 0, ended
    assert "ls --go-on s1" in ended.out
    assert "exit 0" in ended.out
    assert outcome_of(own_home)["iterations"] == 2


REPORTING = r"""#!/bin/sh
touch done
n=$(($(cat "$STATE/n" 2>/dev/null || echo 0) + 1)); echo $n > "$STATE/n"
echo '{"type": "result", "id": "t1", "tool": "Bash", "command": "ls", "output": "it shows done '$n'", "exit_code": 0}'
echo '{"type": "text", "text": "It is done."}'
"""


def test_a_judge_may_cite_what_is_reported_once_nothing_changed_in_its_round(place: Path, own_home: Path) -> None:
    path = prepare(place, REPORTING)
    replies = [judge(("it is shown", [quote(f"o{n}", f"it shows done {n}")])) for n in (1, 2)]
    model = recording(place.parent / "r.jsonl", *replies)
    path.write_text(
        f"""objective = "make done"
success_criteria = ["it is shown"]
judge = "{model}"
agent = "mine"
[workspace]
path = "."
[agents.mine]
argv = ["./agent.sh", "{{args}}"]
stream = "plain"
"""
    )
    ended = goal("run", path, cwd=place, env={"STATE": str(place.parent), **WITH_PLAIN})
    assert ended.code == 0, ended
    assert outcome_of(own_home)["iterations"] == 2
    assert "reported" in ended.out
    recorded = path.read_text()
    path.write_text(recorded.replace(f'judge = "{model}"', f'judge = {{ model = "{model}", require = "runner" }}'))
    refused = goal("run", path, cwd=place, env={"STATE": str(place.parent), **WITH_PLAIN})
    assert (refused.code, "validator" in refused.err) == (2, True), refused

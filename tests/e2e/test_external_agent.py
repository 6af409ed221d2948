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


REPORTING = r"""#!/bin/sh
test -e done || touch done
n=$(($(cat "$STATE/n" 2>/dev/null || echo 0) + 1)); echo $n > "$STATE/n"
echo '{"type": "result", "id": "t1", "tool": "Bash", "command": "ls", "output": "it shows done '$n'", "exit_code": 0}'
echo '{"type": "text", "text": "It is done."}'
"""


def test_a_judge_may_cite_what_is_reported_once_nothing_changed_in_its_round(
    place: Path, own_home: Path
) -> None:
    path = prepare(place, REPORTING)
    replies = [
        judge(("it is shown", [quote(f"o{n}", f"it shows done {n}")])) for n in (1, 2)
    ]
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
    path.write_text(
        recorded.replace(
            f'judge = "{model}"', f'judge = {{ model = "{model}", require = "runner" }}'
        )
    )
    refused = goal(
        "run", path, cwd=place, env={"STATE": str(place.parent), **WITH_PLAIN}
    )
    assert (refused.code, "validator" in refused.err) == (2, True), refused

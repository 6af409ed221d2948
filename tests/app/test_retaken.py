"""The key of the seals is there whole, or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_FULL = """\
import resource, sys
from pathlib import Path
from goalrunner.app.resources import goal_redactor
from goalrunner.app.secret_seals import left_out
from goalrunner.core.errors import RecordError
from goalrunner.goalfile import dump_goal, load_goal
file, home = map(Path, sys.argv[1:])
goal = load_goal(file, {}, {})
frozen = dump_goal(goal, goal_redactor(goal, {}).text)
resource.setrlimit(resource.RLIMIT_FSIZE, (16, resource.RLIM_INFINITY))
try:
    left_out(frozen, goal, home, file, {})
except RecordError as error:
    print(error.message)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(*sorted(path.name for path in home.iterdir()))
print(*left_out(frozen, goal, home, file, {}).seals)
"""


def test_where_no_space_is_left_for_it_there_is_none_and_the_next_run_makes_one(tmp_path: Path) -> None:
    """A disk that is full takes a part of what is written, and says nothing."""
    file, home = tmp_path / "goal.toml", tmp_path / "home"
    file.write_text(
        'objective = "x"\nvalidator = "true"\nmodel = "scripted/x"\n[agent]\nenv = { DB_PASSWORD = "hunter2-hunter2" }\n'
    )
    done = subprocess.run(
        [sys.executable, "-c", _FULL, str(file), str(home)],
        capture_output=True,
        text=True,
        env=dict(os.environ),
        check=False,
    )
    assert done.returncode == 0, done
    failed, left, sealed = done.stdout.splitlines()
    assert (failed.startswith(f"cannot make {home / 'seal'}"), left, sealed) == (True, "", "agent.env.DB_PASSWORD")

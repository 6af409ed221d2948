"""Runs in copies as an ordinary user, and in containers whose disk is an overlay."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.checking.test_overlay import (
    AS_ORDINARY,
    ORDINARY,
    PROJECT,
    as_root,
    ordinary,
    path_here,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400), as_root]

_RUNS = "workspace_as_it_is[as-it-is] or killed_run or at_once[2] or with_a_sandbox"
_CONTAINER = """\
base=$1; options=$2; shift 2
mount --bind / "$base/lower"
exec unshare $options --mount --propagation private sh -ec '
base=$1; overlay=$2; shift 2
mount -t overlay -o "${overlay}lowerdir=$base/lower,upperdir=$base/upper,workdir=$base/work" overlay "$base/root"
cd "$base/root"
for name in proc dev sys; do mount --rbind /$name $name; done
mount -t tmpfs tmpfs dev/shm
old=$(mktemp -d tmp/old.XXXX)
pivot_root . "$old"
umount -l "$old"
cd "$PROJECT"
exec "$@"
' sh "$base" "$@"
"""
"""Runs a command on an overlay of the whole disk: `$1` is a folder for its layers, `$2`
has options of unshare(1), and `$3` those of the mount, with a comma at their end.
"""


def _pytest(python: str, base: Path) -> list[str]:
    """Return the command line that makes some of the runs, and skips nothing."""
    options = ["-q", "-n", "0", "-p", "no:cacheprovider", "-rs", f"--basetemp={base}"]
    options.append("--timeout=300")
    place = [f"--rootdir={PROJECT}", "-c", f"{PROJECT}/pyproject.toml"]
    runs = str(Path(__file__).with_name("test_isolated_runs.py"))
    return [python, "-m", "pytest", *options, *place, "-k", _RUNS, runs]


def _run(argv: Sequence[str], **environ: str) -> str:
    done = subprocess.run(
        argv,
        env={"PATH": os.environ["PATH"], "PROJECT": str(PROJECT), **environ},
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=390,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    return done.stdout


def test_an_ordinary_user_works_beside_the_agent() -> None:
    with ordinary() as python, tempfile.TemporaryDirectory(prefix="goal-copy-") as base:
        os.chown(base, ORDINARY, ORDINARY)
        printed = _run(
            [*AS_ORDINARY, *_pytest(python, Path(base, "t"))],
            PYTHONPATH=path_here(),
            PYTHONDONTWRITEBYTECODE="1",
            HOME=base,
        )
        assert "no overlay works here" not in printed


@pytest.mark.parametrize(
    ("options", "overlay"),
    [("", ""), ("--user --map-root-user", "userxattr,")],
    ids=["root-of-the-machine", "root-in-a-user-namespace"],
)
def test_in_a_container_checks_run_in_place_in_the_copy(
    tmp_path: Path, options: str, overlay: str
) -> None:
    disk = Path("/").stat().st_dev
    if {Path(path).stat().st_dev for path in (PROJECT, sys.prefix)} != {disk}:
        pytest.skip("the project is not on the disk of /")
    for name in ("lower", "upper", "work", "root"):
        (tmp_path / name).mkdir()
    argv = ["unshare", "--mount", "--propagation", "private", "sh", "-ec", _CONTAINER]
    argv += ["sh", str(tmp_path), options, overlay]
    printed = _run([*argv, *_pytest(sys.executable, Path("/tmp/runs"))], HOME="/root")
    assert "no overlay works here" not in printed

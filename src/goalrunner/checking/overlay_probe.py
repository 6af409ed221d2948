"""Whether an overlay of a workspace works here, tried on the workspace itself, and folders for its upper layer."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from goalrunner.checking.environment import File, Layer
from goalrunner.checking.overlay import OpenOverlay
from goalrunner.checking.upper_layer import filesystem
from goalrunner.core.errors import EnvironmentFailed
from goalrunner.system import process_table
from goalrunner.system.launcher import SHELL
from goalrunner.system.orphans import end_orphans
from goalrunner.system.process_table import ProcessTag

_PATIENCE = 30.0
"""Seconds for the commands of the probe."""
_PROBE = """\
fail() { echo "$1"; exit 1; }
[ "$(id -u):$(id -g)" = "$1" ] || fail "commands do not run as the same user"
[ ! -e "$2" ] && [ ! -L "$2" ] || fail "a hidden path is visible"
[ "$(cat "$3/put")" = original ] || fail "a protected file does not have its original content"
[ -z "$4" ] || { rm "$4" && mkdir "$4" && [ -d "$4" ]; } || fail "live files cannot be replaced"
name=$3; shift 4
for root; do
    mkdir -p "$root/$name/folder" && echo new > "$root/$name/new" || fail "files cannot be written"
    rm -r "$root/$name" && mkdir "$root/$name" || fail "files cannot be removed"
done
sleep 600 >/dev/null 2>&1 &
"""


def scratch_candidates(home: Path, workspace: Path) -> Iterator[Path]:
    """Yield folders that may serve as `scratch`, the best one first. None lies on an overlay or below the workspace."""
    name = f"goal-checks-{os.geteuid()}"
    below = Path(os.path.realpath(workspace))
    for folder in (home / "checks", *(Path(place, name) for place in ("/dev/shm", "/var/tmp", "/tmp"))):  # noqa: S108
        real = Path(os.path.realpath(folder))
        existing = next(place for place in (real, *real.parents) if place.exists())
        if not real.is_relative_to(below) and os.access(existing, os.W_OK) and filesystem(existing) != "overlay":
            yield folder


def probe(workspace: Path, scratch: Path, more_roots: Sequence[Path] = ()) -> str:
    """Return why an overlay of the workspace does not work here, in one sentence; empty if it works.

    Everything that a check needs is tried on the workspace itself, which stays as it is.
    """
    name = f".goal-probe-{os.urandom(6).hex()}"
    try:
        files = sorted(entry.name for entry in os.scandir(workspace) if entry.is_file(follow_symlinks=False))
    except OSError as error:
        return f"{workspace} cannot be read: {error.strerror}"
    hidden, removed = (*files, "", "")[:2]
    put = {f"{name}/put": File(stat.S_IFREG | 0o644, b"original\n")}
    first = Layer(workspace, put, frozenset({hidden} - {""}))
    layers = [first, *(Layer(root) for root in more_roots)]
    opened = OpenOverlay(scratch, os.environ, layers)
    left: list[int] = []
    try:
        try:
            opened.set_up()
            expected = [f"{os.geteuid()}:{os.getegid()}", hidden or name + ".hidden", name, removed]
            why = opened.full() or _tried(opened, [*expected, *(str(layer.root) for layer in layers)], left)
        finally:
            opened.tear_down()
    except EnvironmentFailed as error:
        return error.message
    if any((one := process_table.entry(pid)) is not None and one.living for pid in left):
        why = why or "a process of a check cannot be ended"
    if any(os.path.lexists(layer.root / name) for layer in layers):
        why = why or "what a check writes reaches the live files"
    return why


def _tried(opened: OpenOverlay, expected: Sequence[str], left: list[int]) -> str:
    """Run the commands of the probe; return what failed, and add the processes that they left behind to `left`."""
    mark = ProcessTag()
    namespace = opened.namespace
    argv = namespace.entering([SHELL, "-c", _PROBE, "probe", *expected], namespace.located(opened.path))
    environ = mark.environment({"PATH": f"{os.environ.get('PATH', os.defpath)}:{os.defpath}"})
    try:
        done = subprocess.run(
            argv, env=environ, capture_output=True, timeout=_PATIENCE, stdin=subprocess.DEVNULL, check=False
        )
    except subprocess.TimeoutExpired:
        return f"a command did not end within {_PATIENCE:g} s"
    finally:
        left += [one.pid for one in process_table.all_processes() if process_table.has_token(one.pid, mark.token)]
        if not namespace.own_processes:
            end_orphans(mark.token, ())
    said = (done.stdout + done.stderr).decode(errors="replace").strip().splitlines()
    if done.returncode:
        return said[0] if said else f"a command exited with {done.returncode}"
    return "" if left and namespace.alive else "the processes of a check cannot be found"

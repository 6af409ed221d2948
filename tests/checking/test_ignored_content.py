"""Classes of ignored files, what is kept of them at the start of a run, and what differs later."""

from __future__ import annotations

import hashlib
import os
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goalrunner.checking import ignored_content
from goalrunner.checking.ignored_classes import Classifier, Ignored
from goalrunner.checking.ignored_content import Changes, IgnoredContent, digest_of_path
from goalrunner.core.errors import WorkspaceError

TAG = "Signature: 8a477f597d28d172789f06886806bc55\n"


def write(root: Path, *paths: str, text: str = "x") -> None:
    for path in paths:
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)


def remember(content: IgnoredContent, names: Iterable[str]) -> None:
    content.remember(names)


def lost(content: IgnoredContent, changes: Changes) -> tuple[str, ...]:
    """The changed files whose content was not kept."""
    return tuple(path for path in changes.changed if content.original(path) is None)


def classify(
    workspace: Path,
    names: Iterable[str],
    dependencies: Sequence[str] = (),
    *,
    home: Path | None = None,
) -> tuple[Ignored, ...]:
    """Each ignored path with its class, sorted by path."""
    seen = Classifier(workspace, names, dependencies, home=home)
    others = (Ignored(path, "other", "") for path in seen.others)
    return tuple(sorted((*seen.classified, *others), key=lambda entry: entry.path))


def kinds(
    root: Path, *names: str, dependencies: tuple[str, ...] = ()
) -> dict[str, str]:
    return {entry.path: entry.kind for entry in classify(root, names, dependencies)}


@pytest.mark.parametrize(
    ("files", "folder", "kind"),
    [
        ([".venv/pyvenv.cfg", ".venv/CACHEDIR.TAG"], ".venv", "dependencies"),
        (["my env/pyvenv.cfg"], "my env", "dependencies"),
        (["conda/conda-meta/history"], "conda", "dependencies"),
        (["package.json", "node_modules/a/index.js"], "node_modules", "dependencies"),
        (
            ["package.json", "app/node_modules/a/package.json"],
            "app/node_modules",
            "dependencies",
        ),
        (
            ["package.json", "app/node_modules/@s/a/package.json"],
            "app/node_modules",
            "dependencies",
        ),
        (
            ["package.json", "test/fixtures/node_modules/a/index.js"],
            "test/fixtures/node_modules",
            "",
        ),
        (["node_modules/.package-lock.json"], "node_modules", "dependencies"),
        (["node_modules/.bin/jest"], "node_modules", "dependencies"),
        (["node_modules/a/index.js"], "node_modules", ""),
        (["vendor/modules.txt"], "vendor", "dependencies"),
        (["vendor/autoload.php"], "vendor", "dependencies"),
        (["Cargo.toml", "vendor/serde/lib.rs"], "vendor", "dependencies"),
        (["vendor/notes.txt"], "vendor", ""),
        ([".yarn/cache/a.zip"], ".yarn/cache", "dependencies"),
        (["cache/a.zip"], "cache", ""),
        (["vendor/bundle/ruby/a.rb"], "vendor/bundle", "dependencies"),
        ([".pnpm-store/v3/a"], ".pnpm-store", "dependencies"),
        (["__pypackages__/3.11/lib/a.py"], "__pypackages__", "dependencies"),
        (["Cargo.toml", "target/debug/a"], "target", "build"),
        (["pom.xml", "target/a.class"], "target", "build"),
        (["target/a.txt"], "target", ""),
        (["App.csproj", "bin/a.dll"], "bin", "build"),
        (["App.csproj", "obj/a.dll"], "obj", "build"),
        (["bin/tool"], "bin", ""),
        (["build/a"], "build", "build"),
        (["dist/a"], "dist", "build"),
        (["out/a"], "out", "build"),
        ([".tox/py311/pyvenv.cfg"], ".tox", "build"),
        ([".nox/tests/pyvenv.cfg"], ".nox", "build"),
        (["src/__pycache__/a.pyc"], "src/__pycache__", "build"),
        ([".next/a"], ".next", "build"),
        (["htmlcov/index.html"], "htmlcov", "build"),
        (["cmake/CMakeCache.txt"], "cmake", "build"),
        (["pkg.egg-info/PKG-INFO"], "pkg.egg-info", ""),
        (["data/rows.csv"], "data", ""),
    ],
)
def test_folders_by_markers_and_names(
    tmp_path: Path, files: list[str], folder: str, kind: str
) -> None:
    write(tmp_path, *files)
    found = classify(tmp_path, [f"{folder}/"])
    if kind:
        assert [(entry.path, entry.kind, entry.root) for entry in found] == [
            (folder, kind, folder)
        ]
        assert found[0].why
    else:
        inner = sorted(file for file in files if file.startswith(f"{folder}/"))
        assert found == tuple(Ignored(path, "other", "") for path in inner)


def test_the_reason_names_the_marker(tmp_path: Path) -> None:
    write(
        tmp_path,
        ".venv/pyvenv.cfg",
        "Cargo.toml",
        "target/a",
        "package.json",
        "a/node_modules/b/package.json",
        "m/x",
    )
    found = classify(tmp_path, [".venv/", "target/", "a/node_modules/", "m/"], ["m/"])
    assert {entry.path: entry.why for entry in found} == {
        ".venv": "pyvenv.cfg",
        "target": "Cargo.toml beside it",
        "a/node_modules": "package.json above it",
        "m": "named in the goal file",
    }


def test_a_cache_tag_marks_build_output(tmp_path: Path) -> None:
    write(tmp_path, "a/CACHEDIR.TAG", "b/data")
    assert kinds(tmp_path, "a/", "b/") == {"a": "build", "b/data": "other"}


@pytest.mark.parametrize(
    "name", [".coverage", ".coverage.host.1", "a.tsbuildinfo", "main.o", "coverage.xml"]
)
def test_files_that_are_build_output(tmp_path: Path, name: str) -> None:
    write(tmp_path, name)
    assert kinds(tmp_path, name) == {name: "build"}


@pytest.mark.parametrize(
    "name",
    [
        ".env",
        "_version.py",
        "fast.cpython-311.so",
        "a.mo",
        "test.db",
        ".coveragerc",
        "a.pyc",
    ],
)
def test_files_that_look_like_build_output_and_are_not(
    tmp_path: Path, name: str
) -> None:
    write(tmp_path, f"src/{name}")
    assert kinds(tmp_path, f"src/{name}") == {f"src/{name}": "other"}


def test_what_is_recognised_in_an_ignored_folder_is_an_entry_of_its_own(
    tmp_path: Path,
) -> None:
    write(
        tmp_path,
        "w/env/pyvenv.cfg",
        "w/env/bin/python",
        "w/build/a/b",
        "w/data/d.csv",
        "w/c.o",
        "w/.git/index",
    )
    assert kinds(tmp_path, "w/") == {
        "w/env": "dependencies",
        "w/build": "build",
        "w/data/d.csv": "other",
        "w/c.o": "build",
    }


def test_links_are_never_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    write(elsewhere, "pyvenv.cfg", "a.txt")
    root = tmp_path / "w"
    (root / "in").mkdir(parents=True)
    for name in (".venv", "node_modules", "in/data", "in/node_modules"):
        (root / name).symlink_to(elsewhere)
    found = classify(root, [".venv", "node_modules", "in/"])
    assert [(entry.path, entry.kind) for entry in found] == [
        (".venv", "dependencies"),
        ("in/data", "other"),
        ("in/node_modules", "dependencies"),
        ("node_modules", "dependencies"),
    ]


def test_a_plain_file_with_the_name_of_a_folder_is_other_content(
    tmp_path: Path,
) -> None:
    write(tmp_path, "env", "node_modules")
    assert kinds(tmp_path, "env", "node_modules") == {
        "env": "other",
        "node_modules": "other",
    }


def test_patterns_of_the_goal_file_come_first(tmp_path: Path) -> None:
    write(tmp_path, "build/a", "data/m/a.bin", "data/m/b.txt", "models/x/y", "build2/c")
    found = kinds(
        tmp_path,
        "build/",
        "data/",
        "models/",
        dependencies=("build/", "*.bin", "/models/**"),
    )
    assert found == {
        "build": "dependencies",
        "data/m/a.bin": "dependencies",
        "data/m/b.txt": "other",
        "models": "dependencies",
    }


def test_an_exception_in_the_patterns_holds_inside_of_a_folder(tmp_path: Path) -> None:
    write(tmp_path, "models/a", "models/b")
    assert kinds(tmp_path, "models/", dependencies=("models/**", "!models/b")) == {
        "models/a": "dependencies",
        "models/b": "other",
    }


def test_listed_dependencies_inside_of_build_output(tmp_path: Path) -> None:
    write(
        tmp_path,
        "build/_deps/lib/a.c",
        "build/b.o",
        "build/x/y/z.o",
        "build/x/lib/l.a",
        "build/sub/c.txt",
    )
    assert kinds(tmp_path, "build/", dependencies=("/build/_deps/", "build/x/lib")) == {
        "build/_deps": "dependencies",
        "build/b.o": "build",
        "build/sub": "build",
        "build/x/lib": "dependencies",
        "build/x/y": "build",
    }


def test_an_environment_of_tox_beside_what_tox_builds(tmp_path: Path) -> None:
    write(
        tmp_path,
        ".tox/py/pyvenv.cfg",
        ".tox/py/lib/a.py",
        ".tox/.pkg/pyvenv.cfg",
        ".tox/log/1.log",
        ".tox/CACHEDIR.TAG",
    )
    first = Classifier(tmp_path, [".tox/"], (".tox/py",), home=None)
    roots = {entry.root: (entry.kind, entry.why) for entry in first.classified}
    again = Classifier(tmp_path, [".tox/"], (".tox/py",), roots, home=None)
    assert {entry.path: entry.kind for entry in first.classified} == {
        ".tox/.pkg": "build",
        ".tox/CACHEDIR.TAG": "build",
        ".tox/log": "build",
        ".tox/py": "dependencies",
    }
    assert again.classified == first.classified
    assert first.others == {}


def test_names_that_git_gives_twice_count_once(tmp_path: Path) -> None:
    write(tmp_path, ".venv/.gitignore", ".venv/pyvenv.cfg", ".venv/bin/python")
    names = [".venv/", ".venv/.gitignore", ".venv/bin/", ".venv/pyvenv.cfg"]
    assert kinds(tmp_path, *names) == {".venv": "dependencies"}


def test_parts_of_a_folder_have_the_class_of_the_folder(tmp_path: Path) -> None:
    write(
        tmp_path,
        "vendor/modules.txt",
        "vendor/README",
        "vendor/a/b.go",
        "dist/.gitignore",
        "dist/a.js",
        "dist/s/b",
    )
    write(tmp_path, "src/build/api.py", "src/build/_version.py")
    found = classify(
        tmp_path,
        [
            "vendor/a/",
            "vendor/modules.txt",
            "dist/a.js",
            "dist/s/",
            "src/build/_version.py",
        ],
    )
    assert [(entry.path, entry.kind, entry.root) for entry in found] == [
        ("dist/a.js", "build", "dist"),
        ("dist/s", "build", "dist"),
        (
            "src/build/_version.py",
            "other",
            "",
        ),  # `src/build` holds tracked source files
        ("vendor/a", "dependencies", "vendor"),
        ("vendor/modules.txt", "dependencies", "vendor"),
    ]


def test_the_folder_of_the_runs_is_left_out(tmp_path: Path) -> None:
    write(tmp_path, "state/goal/runs/1/events.jsonl", "state/a")
    found = classify(tmp_path, ["state/"], home=tmp_path / "state/goal")
    assert [entry.path for entry in found] == ["state/a"]
    parts = classify(
        tmp_path, ["state/goal/runs/", "state/a"], home=tmp_path / "state/goal"
    )
    assert [entry.path for entry in parts] == ["state/a"]


def test_sockets_and_pipes_are_left_out(tmp_path: Path) -> None:
    write(tmp_path, "run/a")
    os.mkfifo(tmp_path / "run/pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(tmp_path / "run/s"))
        assert kinds(tmp_path, "run/") == {"run/a": "other"}


def test_names_that_vanish_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "d/a/x", "d/b/x")
    scan = os.scandir

    def gone(path: str) -> Any:
        if path.endswith("/d/a"):
            raise FileNotFoundError(path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", gone)
    assert kinds(tmp_path, "d/", "missing/") == {"d/b/x": "other"}


def test_folders_that_cannot_be_read_are_one_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "pgdata/base/1", "pgdata/a")
    scan = os.scandir

    def closed(path: str) -> Any:
        if path.endswith("/base"):
            raise PermissionError(path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", closed)
    found = {entry.path: entry for entry in classify(tmp_path, ["pgdata/"])}
    assert found["pgdata/base"] == Ignored("pgdata/base", "other", "cannot be read")
    assert found["pgdata/a"].why == ""


@pytest.mark.skipif(
    os.geteuid() == 0 and not Path("/usr/bin/setpriv").exists(),
    reason="root may look up everything",
)
def test_folders_that_can_only_be_listed_are_one_entry(tmp_path: Path) -> None:
    write(tmp_path, "data/base/1", "data/a")
    code = "import sys; from goalrunner.checking.ignored_classes import Classifier; from pathlib import Path; "
    code += "found = Classifier(Path(sys.argv[1]), ['data/'], (), home=None); "
    code += "print([entry.path for entry in found.classified], sorted(found.others))"
    as_user = (
        ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"]
        if os.geteuid() == 0
        else []
    )
    (tmp_path / "data/base").chmod(0o600)
    done = subprocess.run(
        [*as_user, sys.executable, "-c", code, tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    (tmp_path / "data/base").chmod(0o700)
    assert (done.stdout, done.stderr) == ("['data/base'] ['data/a']\n", "")


def test_names_are_bytes(tmp_path: Path) -> None:
    raw = os.fsencode(tmp_path) + b"/d\xe9"
    Path(os.fsdecode(raw)).mkdir()
    for name in (b"caf\xe9.db", "ü✓.db".encode(), b"a\nb", b"back\\slash"):
        Path(os.fsdecode(raw + b"/" + name)).touch()
    found = [
        os.fsencode(entry.path)
        for entry in classify(tmp_path, [os.fsdecode(b"d\xe9/")])
    ]
    assert sorted(found) == sorted(
        b"d\xe9/" + name
        for name in (b"caf\xe9.db", "ü✓.db".encode(), b"a\nb", b"back\\slash")
    )


PIECES = st.sampled_from(
    [
        "a",
        "b",
        "build",
        ".venv",
        "node_modules",
        "target",
        "vendor",
        "__pycache__",
        "x.o",
        "é",
        ".git",
    ]
)
LEAVES = st.sampled_from(
    [
        "f",
        "pyvenv.cfg",
        "Cargo.toml",
        "package.json",
        "modules.txt",
        "c.tsbuildinfo",
        ".env",
    ]
)


@settings(deadline=None)
@given(
    files=st.lists(
        st.tuples(st.lists(PIECES, min_size=1, max_size=4), LEAVES),
        min_size=1,
        max_size=12,
    )
)
def test_each_file_has_exactly_one_class(
    tmp_path_factory: pytest.TempPathFactory, files: list[tuple[list[str], str]]
) -> None:
    root = tmp_path_factory.mktemp("w")
    paths = {"/".join((*folders, leaf)) for folders, leaf in files}
    write(root, *sorted(paths))
    names = [f"{name}/" for name in sorted({path.split("/")[0] for path in paths})]
    found = classify(root, names)
    assert found == classify(root, reversed(names))
    assert list(found) == sorted(found, key=lambda entry: entry.path)
    for path in paths:
        over = [
            entry
            for entry in found
            if entry.path == path or path.startswith(f"{entry.path}/")
        ]
        assert len(over) == (0 if not over and ".git" in path.split("/")[1:] else 1)
    for entry in found:
        assert entry.kind != "other" or not (root / entry.path).is_dir()


@pytest.fixture
def work(tmp_path: Path) -> Path:
    root = tmp_path / "w"
    write(root, ".env", text="KEY=1")
    write(root, "data/rows.csv", text="1,2")
    write(
        root, ".venv/pyvenv.cfg", ".venv/lib/python3.11/site-packages/a.py", "build/a"
    )
    return root


NAMES = (".env", "data/", ".venv/", "build/")
Make = Callable[..., IgnoredContent]


@pytest.fixture
def make(work: Path, tmp_path: Path) -> Make:
    def content(*, contents: bool = True, named: Sequence[str] = ()) -> IgnoredContent:
        return IgnoredContent(
            work,
            tmp_path / "keep",
            contents=contents,
            named=[*map(digest_of_path, named)],
        )

    return content


def age(path: Path) -> None:
    """Give a file other times."""
    os.utime(path, ns=(1, 1), follow_symlinks=False)


def test_nothing_differs_after_the_start(make: Make) -> None:
    content = make()
    remember(content, NAMES)
    changes = content.compare(content.look(NAMES))
    assert changes == Changes(build=("build",), state=changes.state)


def test_changed_and_deleted_files_have_their_original(work: Path, make: Make) -> None:
    content = make()
    (work / "data/rows.csv").chmod(0o640)
    remember(content, NAMES)
    (work / ".env").write_text("KEY=2")
    (work / "data/rows.csv").unlink()
    changes = content.compare(content.look(NAMES))
    assert (changes.changed, lost(content, changes), changes.appeared) == (
        (".env", "data/rows.csv"),
        (),
        (),
    )
    original = content.original("data/rows.csv")
    assert original is not None
    assert (original.data, stat.S_IMODE(original.mode), original.is_link) == (
        b"1,2",
        0o640,
        False,
    )
    assert content.original("build/a") is None


def test_a_resumed_run_compares_with_the_start(work: Path, make: Make) -> None:
    remember(make(), NAMES)
    (work / ".env").write_text("KEY=2")
    write(work, "data/new.csv")
    second = make()
    remember(second, NAMES)
    changes = second.compare(second.look(NAMES))
    assert (changes.changed, changes.appeared) == ((".env",), ("data/new.csv",))
    original = second.original(".env")
    assert original is not None
    assert original.data == b"KEY=1"


def test_touching_a_file_is_no_change(work: Path, make: Make) -> None:
    content = make()
    remember(content, NAMES)
    age(work / ".env")
    assert content.compare(content.look(NAMES)).changed == ()
    (work / ".env").write_text("KEY=2")  # the same size
    age(work / ".env")
    assert content.compare(content.look(NAMES)).changed == (".env",)
    (work / ".env").write_text("KEY=1")
    assert content.compare(content.look(NAMES)).changed == ()


def test_permissions_are_content(work: Path, make: Make) -> None:
    content = make()
    remember(content, NAMES)
    (work / ".env").chmod(0o755)
    assert content.compare(content.look(NAMES)).changed == (".env",)


def test_without_contents_a_changed_file_is_lost(
    work: Path, make: Make, tmp_path: Path
) -> None:
    content = make(contents=False)
    remember(content, NAMES)
    (work / ".env").write_text("KEY=2")
    changes = content.compare(content.look(NAMES))
    assert (changes.changed, lost(content, changes)) == ((".env",), (".env",))
    assert content.original(".env") is None
    assert not any(
        b"KEY=1" in file.read_bytes() for file in (tmp_path / "keep").iterdir()
    )


def test_links_are_compared_by_target(work: Path, make: Make) -> None:
    (work / "data/link").symlink_to("rows.csv")
    content = make()
    remember(content, NAMES)
    (work / "data/link").unlink()
    (work / "data/link").symlink_to("rows.csv")
    assert content.compare(content.look(NAMES)).changed == ()
    (work / "data/link").unlink()
    (work / "data/link").symlink_to("other.csv")
    assert content.compare(content.look(NAMES)).changed == ("data/link",)
    original = content.original("data/link")
    assert original is not None
    assert (original.is_link, original.data) == (True, b"rows.csv")


def test_a_file_that_became_a_folder_or_pipe_is_changed(work: Path, make: Make) -> None:
    content = make()
    remember(content, NAMES)
    (work / ".env").unlink()
    os.mkfifo(work / ".env")
    (work / "data/rows.csv").unlink()
    write(work, "data/rows.csv/inner")
    changes = content.compare(content.look(NAMES))
    assert changes.changed == (".env", "data/rows.csv")
    assert changes.appeared == ("data/rows.csv",)


def test_large_files_are_not_kept(
    work: Path, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ignored_content, "LARGEST_IN_PACK", 10)
    monkeypatch.setattr(ignored_content, "_LARGEST_PACK", 25)
    for name, size in (("a", 10), ("b", 10), ("c", 11)):
        write(work, f"big/{name}", text=name * size)
    names = (*NAMES, "big/")
    content = make()
    remember(content, names)  # .env and rows.csv take eight bytes, so one of ten fits
    for path in ("big/a", "big/b", "big/c", ".env"):
        (work / path).write_text("changed")
    changes = content.compare(content.look(names))
    assert changes.changed == (".env", "big/a", "big/b", "big/c")
    assert lost(content, changes) == ("big/b", "big/c")


def test_a_file_just_over_the_limit_is_not_kept(
    work: Path, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ignored_content, "LARGEST_IN_PACK", 4)
    content = make()
    remember(content, NAMES)  # .env has five bytes, rows.csv three
    (work / ".env").unlink()
    (work / "data/rows.csv").unlink()
    changes = content.compare(content.look(NAMES))
    assert (changes.changed, lost(content, changes)) == (
        (".env", "data/rows.csv"),
        (".env",),
    )


def test_unreadable_files_are_watched_by_their_stats(
    work: Path, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_ = os.open

    def closed(path: str | Path, *arguments: int, **options: int) -> int:
        if str(path).endswith(".env"):
            raise PermissionError(path)
        return open_(path, *arguments, **options)

    monkeypatch.setattr(os, "open", closed)
    content = make()
    remember(content, NAMES)
    assert content.compare(content.look(NAMES)).changed == ()
    age(work / ".env")
    assert lost(content, content.compare(content.look(NAMES))) == (".env",)


def test_new_folders_are_named_once(work: Path, make: Make) -> None:
    (work / "logs").mkdir()
    names = (*NAMES, "logs/")
    content = make()
    remember(content, names)
    write(
        work, "logs/today", "data/new/deep/a", "data/new/b", "cache2/x/y", "data/.env"
    )
    changes = content.compare(content.look((*names, "cache2/")))
    assert changes.appeared == ("cache2", "data/.env", "data/new", "logs/today")


def test_a_new_folder_with_dependencies_in_it_is_not_named_whole(
    work: Path, make: Make
) -> None:
    content = make()
    remember(content, NAMES)
    write(work, "play/.venv/pyvenv.cfg", "play/build/b", "play/x/y", "play/z")
    changes = content.compare(content.look((*NAMES, "play/")))
    assert changes.appeared == ("play/x", "play/z")
    assert changes.dependency_folders == ("play/.venv",)
    assert changes.build == ("build", "play/build")


def test_new_files_in_tracked_folders_are_named_one_by_one(
    work: Path, make: Make
) -> None:
    content = make()
    remember(content, NAMES)
    write(work, "src/a.db", "src/b.db")
    assert content.compare(content.look((*NAMES, "src/a.db", "src/b.db"))).appeared == (
        "src/a.db",
        "src/b.db",
    )


def test_build_output_that_checks_name_counts_if_it_was_written_since_the_start(
    work: Path, make: Make
) -> None:
    content = make(named=("build/a", "build/ok", "dist", "data"))
    remember(content, NAMES)
    write(work, "build/ok", "build/other", "dist/x/y")
    assert content.compare(content.look((*NAMES, "dist/"))).built == (
        "build/ok",
        "dist/x/y",
    )


def test_much_named_build_output_is_one_path(
    work: Path, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ignored_content, "_MOST_BUILT", 2)
    content = make(named=("build",))
    remember(content, NAMES)
    write(work, "build/b", "build/c/d")
    assert content.compare(content.look(NAMES)).built == ("build",)


def test_names_that_vanished_meanwhile_did_not_appear(make: Make) -> None:
    content = make()
    remember(content, NAMES)
    assert content.compare(content.look((*NAMES, "src/gone.db"))).appeared == ()


def test_a_marker_planted_later_does_not_hide_changes(work: Path, make: Make) -> None:
    content = make()
    remember(content, NAMES)
    write(work, "data/CACHEDIR.TAG", text=TAG)
    (work / "data/rows.csv").write_text("9,9,9")
    assert content.compare(content.look(NAMES)).changed == ("data/rows.csv",)


def test_dependencies_stay_dependencies_without_their_marker(
    work: Path, make: Make
) -> None:
    write(work, ".venv/bin/python")
    content = make()
    remember(content, NAMES)
    (work / ".venv/pyvenv.cfg").unlink()
    changes = content.compare(content.look(NAMES))
    assert (changes.appeared, changes.dependency_folders) == ((), (".venv",))


def test_dependencies_that_git_does_not_ignore_are_watched(
    work: Path, make: Make
) -> None:
    write(work, ".venv/pyvenv.cfg", "node_modules/tool/index.js")
    content = make()
    remember(content, ())
    write(work, ".venv/bin/pytest", "node_modules/tool/index.js", text="changed")
    assert content.compare(content.look(())).dependency_folders == (
        ".venv",
        "node_modules",
    )


def test_removed_dependencies_are_labelled(work: Path, make: Make) -> None:
    content = make()
    remember(content, NAMES)
    (work / ".venv").rename(work.parent / "moved")
    assert content.compare(content.look((".env", "data/", "build/"))).dependencies == (
        ".venv removed",
    )


def test_a_run_without_dependencies_at_the_start(work: Path, make: Make) -> None:
    content = make()
    (work / ".venv").rename(work.parent / "later")
    remember(content, (".env",))
    (work.parent / "later").rename(work / ".venv")
    changes = content.compare(content.look((".env", ".venv/")))
    assert (changes.dependency_folders, changes.dependencies) == (
        (".venv",),
        ("+.venv",),
    )


@pytest.mark.parametrize("damage", ["cut", "empty"])
def test_a_damaged_record_is_an_error(make: Make, tmp_path: Path, damage: str) -> None:
    remember(make(), NAMES)
    record = tmp_path / "keep/ignored.json"
    data = record.read_bytes()
    record.write_bytes({"cut": data[:-5], "empty": b""}[damage])
    with pytest.raises(WorkspaceError, match="damaged"):
        remember(make(), NAMES)


def test_a_record_that_cannot_be_written_is_an_error_when_it_is_needed(
    make: Make, tmp_path: Path
) -> None:
    content = make()
    write(tmp_path, "keep")  # a file where the folder of the record would be
    with pytest.raises(WorkspaceError, match="cannot be kept"):
        content.remember(NAMES)


def test_a_record_of_another_version_is_an_error(make: Make, tmp_path: Path) -> None:
    data = b'{"files": {}}'
    write(
        tmp_path,
        "keep/ignored.json",
        text=f"{hashlib.sha256(data).hexdigest()}\n{data.decode()}",
    )
    with pytest.raises(WorkspaceError, match="another version"):
        remember(make(), NAMES)


def test_damaged_content_is_an_error(make: Make, tmp_path: Path) -> None:
    content = make()
    remember(content, NAMES)
    (tmp_path / "keep/ignored.contents").write_bytes(b"KEY=9")
    with pytest.raises(WorkspaceError, match=r"rows\.csv is damaged|\.env is damaged"):
        [content.original(path) for path in (".env", "data/rows.csv")]


def test_comparing_before_the_start_is_an_error(make: Make) -> None:
    with pytest.raises(WorkspaceError, match="cannot be read"):
        make().compare(make().look(NAMES))


def test_kept_files_are_private(make: Make, tmp_path: Path) -> None:
    remember(make(), NAMES)
    assert stat.S_IMODE((tmp_path / "keep").stat().st_mode) == 0o700
    assert {
        stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "keep").iterdir()
    } == {0o600}


def test_names_that_are_not_utf8_survive_a_resume(work: Path, make: Make) -> None:
    name = os.fsdecode(b"caf\xe9.db")
    write(work, name, text="old")
    remember(make(), [name])
    write(work, name, text="new")
    second = make()
    assert second.compare(second.look([name])).changed == (name,)
    original = second.original(name)
    assert original is not None
    assert original.data == b"old"


@pytest.mark.parametrize(
    ("path", "same"),
    [
        ("data/rows.csv", False),
        ("data/server.log", True),
        ("data/server.pid", True),
        ("data/new.db", False),
        ("build/a", True),
        (".venv/lib/python3.11/site-packages/httpx-0.28.dist-info/METADATA", False),
        (".venv/lib/python3.11/site-packages/__pycache__/a.pyc", True),
    ],
)
def test_fingerprint(work: Path, make: Make, path: str, same: bool) -> None:
    content = make()
    remember(content, NAMES)
    before = content.compare(content.look(NAMES)).state
    assert content.compare(content.look(reversed(NAMES))).state == before
    write(work, path, text="something else")
    assert (content.compare(content.look(NAMES)).state == before) is same


def test_what_git_names(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    write(tmp_path, ".gitignore", text="*.db\ndata/\n")
    write(tmp_path, ".venv/.gitignore", text="*")
    write(
        tmp_path,
        ".venv/pyvenv.cfg",
        ".venv/bin/python",
        "src/a.db",
        "data/x/y",
        "src/a.py",
    )
    command = [
        "git",
        "ls-files",
        "--others",
        "--ignored",
        "--directory",
        "--exclude-standard",
        "-z",
    ]
    output = subprocess.run(
        command, check=True, cwd=tmp_path, capture_output=True
    ).stdout
    names = [os.fsdecode(name) for name in output.split(b"\0")[:-1]]
    assert kinds(tmp_path, *names) == {
        ".venv": "dependencies",
        "data/x/y": "other",
        "src/a.db": "other",
    }


@pytest.mark.bench
def test_many_files_are_classified_quickly(tmp_path: Path) -> None:
    for folder in range(20):
        (tmp_path / f"data/{folder}").mkdir(parents=True)
        for number in range(500):
            (tmp_path / f"data/{folder}/{number}").touch()
    classify(tmp_path, ["data/"])
    start = time.perf_counter()
    assert len(classify(tmp_path, ["data/"])) == 10_000
    assert time.perf_counter() - start < 0.5  # some 0.03 s on an idle machine

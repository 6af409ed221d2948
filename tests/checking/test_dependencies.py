"""Installed packages of dependency folders, and labels for what differs."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from goalrunner.checking import dependencies
from goalrunner.checking.dependencies import Installed, dependency_labels, inspect

SITE = ".venv/lib/python3.11/site-packages"


def write(root: Path, *paths: str, text: str = "x") -> None:
    for path in paths:
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)


def install(
    root: Path, name: str, version: str, files: dict[str, str], *, url: str = ""
) -> None:
    """Install a distribution by hand: files relative to site-packages, metadata and a RECORD with hashes."""
    site = root / SITE
    rows = []
    for path, text in files.items():
        place = Path(os.path.normpath(site / path))
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        place.write_text(text)
        hash_ = (
            base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest())
            .decode()
            .rstrip("=")
        )
        rows.append(f'"{path}",sha256={hash_},{len(text)}')
    info = f"{name}-{version}.dist-info"
    rows += [
        f"{info}/METADATA,sha256=x,1",
        f"{info}/INSTALLER,sha256=y,4",
        f"{info}/RECORD,,",
        f"{name}/__pycache__/a.pyc,,",
    ]
    write(site, f"{info}/METADATA", text=f"Name: {name}\nVersion: {version}\n")
    write(site, f"{info}/RECORD", text="\n".join(rows))
    if url:
        write(
            site,
            f"{info}/direct_url.json",
            text=json.dumps({"url": url, "dir_info": {"editable": True}}),
        )


REQUESTS = {
    "requests/__init__.py": "code = 1",
    "requests/api/get.py": "def get(): ...",
    "../../../bin/requests": "#!python",
    "requests-2.31.dist-info/entry_points.txt": "[console_scripts]",
}

Look = Callable[[], dict[str, Installed]]
Differ = Callable[[], tuple[str, ...]]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    root = tmp_path / "w"
    write(
        root,
        ".venv/pyvenv.cfg",
        ".venv/bin/activate",
        f"{SITE}/loose.py",
        f"{SITE}/handmade/a.py",
    )
    install(root, "requests", "2.31", REQUESTS)
    install(root, "attrs", "23.1", {"attr/__init__.py": "a"})
    write(root, f"{SITE}/requests/__pycache__/a.pyc")
    return root


def watch(root: Path, *folders: str) -> Differ:
    """Look at dependency folders, and return a function that names what differs from then."""

    def look() -> dict[str, Installed]:
        found = {folder: inspect(root, folder) for folder in folders}
        return {folder: installed for folder, installed in found.items() if installed}

    before = {
        folder: Installed(**json.loads(json.dumps(vars(one))))
        for folder, one in look().items()
    }
    return lambda: tuple(
        sorted(
            label
            for some in dependency_labels(before, look(), root).values()
            for label in some
        )
    )


@pytest.fixture
def differ(work: Path) -> Differ:
    return watch(work, ".venv")


def test_nothing_differs(differ: Differ) -> None:
    assert differ() == ()


def test_versions(work: Path, differ: Differ) -> None:
    install(work, "httpx", "0.28", {"httpx/__init__.py": "a"})
    shutil.rmtree(work / SITE / "attrs-23.1.dist-info")
    shutil.rmtree(work / SITE / "attr")
    shutil.rmtree(work / SITE / "requests-2.31.dist-info")
    install(work, "requests", "2.32", {"requests/__init__.py": "code = 2"})
    assert [label for label in differ() if label[0] in "+-r"] == [
        "+httpx 0.28",
        "-attrs 23.1",
        "requests 2.31 → 2.32",
    ]


def test_code_that_was_edited(work: Path, differ: Differ) -> None:
    (work / SITE / "requests/api/get.py").write_text("def got(): ...")  # the same size
    assert differ() == ("code of requests changed",)


def test_an_edit_with_the_old_times_and_a_new_record(
    work: Path, differ: Differ
) -> None:
    path = work / SITE / "attr/__init__.py"
    info = path.stat()
    install(work, "attrs", "23.1", {"attr/__init__.py": "b"})
    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))
    assert differ() == ("code of attrs changed",)


@pytest.mark.parametrize(
    "path",
    [
        "requests/evil.py",
        "requests/api/sub/evil.so",
        "requests-2.31.dist-info/evil.txt",
    ],
)
def test_a_file_that_was_added_to_a_package(
    work: Path, differ: Differ, path: str
) -> None:
    write(work / SITE, path)
    assert differ() == (() if path.endswith(".txt") else (f"new file {path}",))


def test_entry_points_are_code(work: Path, differ: Differ) -> None:
    write(
        work / SITE,
        "attrs-23.1.dist-info/entry_points.txt",
        text="[pytest11]\nevil = evil",
    )
    assert differ() == ("new file attrs-23.1.dist-info/entry_points.txt",)


def test_scripts_belong_to_their_package(work: Path, differ: Differ) -> None:
    (work / ".venv/bin/requests").write_text("#!/bin/sh\nexit 0")
    assert differ() == ("code of requests changed",)


def test_a_deleted_file_of_a_package(work: Path, differ: Differ) -> None:
    (work / SITE / "requests/api/get.py").unlink()
    assert differ() == ("code of requests changed",)


def test_touching_and_installing_again_is_no_change(work: Path, differ: Differ) -> None:
    for path in (work / ".venv").rglob("*.py"):
        if path.parent.name != "handmade":  # no RECORD has its hash
            os.utime(path, ns=(1, 1))
    install(work, "requests", "2.31", REQUESTS)
    (work / SITE / "requests-2.31.dist-info/INSTALLER").write_text("uv")
    (work / SITE / "requests-2.31.dist-info/REQUESTED").touch()
    assert differ() == ()


def test_a_folder_of_packages_without_an_environment(work: Path) -> None:
    differ = watch(work, SITE)
    install(work, "attrs", "23.1", {"attr/__init__.py": "a"})
    assert differ() == ()
    install(work, "attrs", "23.1", {"attr/__init__.py": "b"})
    assert differ() == ("code of attrs changed",)


def test_files_of_a_package_outside_of_the_environment_do_not_count(work: Path) -> None:
    files = {
        "tool/__init__.py": "a",
        str(work / "outside"): "b",
        "../../../../above": "c",
    }
    install(work, "tool", "1", files)
    differ, only = watch(work, ".venv"), watch(work, SITE)
    install(work, "tool", "1", files)
    assert (differ(), only()) == ((), ())


def test_bytecode_and_caches_are_left_out(work: Path, differ: Differ) -> None:
    write(
        work / SITE,
        "requests/__pycache__/b.pyc",
        "handmade/.mypy_cache/a",
        "__pycache__/c.pyc",
    )
    write(work, ".venv/.lock")
    assert differ() == ()


@pytest.mark.parametrize(
    ("path", "label"),
    [
        (f"{SITE}/sitecustomize.py", "new file sitecustomize.py"),
        (f"{SITE}/evil.pth", "new file evil.pth"),
        (f"{SITE}/evil.pyc", "new file evil.pyc"),
        (f"{SITE}/evil/sub/a.py", "new file evil/sub/a.py"),
        (f"{SITE}/evil-1.dist-info/METADATA", "+evil 1"),
        (f"{SITE}/handmade/b.py", "new file handmade/b.py"),
        (f"{SITE}/loose.py", "file loose.py changed"),
        (".venv/bin/tool", "new file bin/tool"),
        (".venv/share/doc/a", "new file share/doc/a"),
        (".venv/pyvenv.cfg", "file pyvenv.cfg changed"),
    ],
)
def test_files_of_no_package(work: Path, differ: Differ, path: str, label: str) -> None:
    write(work, path, text="import evil")
    assert differ() == (label,)


def test_files_that_were_removed(work: Path, differ: Differ) -> None:
    (work / SITE / "loose.py").unlink()
    shutil.rmtree(work / SITE / "handmade")
    assert differ() == ("file handmade/a.py removed", "file loose.py removed")


def test_a_namespace_of_two_packages(work: Path) -> None:
    install(work, "one", "1", {"space/one/a.py": "a", "space/x.py": "a"})
    install(work, "two", "1", {"space/two/a.py": "a", "space/y.py": "a"})
    differ = watch(work, ".venv")
    install(work, "two", "1", {"space/two/a.py": "a", "space/y.py": "a"})
    assert differ() == ()
    write(work / SITE, "space/three.py")
    assert differ() == ("new file space/three.py",)


def editable(root: Path, version: str, finder: str) -> None:
    files = {
        f"__editable___mine_{version}_finder.py": finder,
        f"__editable__.mine-{version}.pth": "import finder",
        "../../../bin/mine": f"#!python {finder}",
    }
    install(root, "mine", version, files, url=root.as_uri())


def test_an_editable_install_of_the_workspace_is_no_dependency(work: Path) -> None:
    editable(work, "1.0", "a")
    differ = watch(work, ".venv")
    editable(work, "1.0", "b")
    assert differ() == ()
    for path in (work / SITE).glob("*mine*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    editable(work, "1.1", "c")
    assert differ() == ()


def test_an_editable_install_that_names_a_file_of_another_package_hides_no_change(
    work: Path, differ: Differ
) -> None:
    install(work, "zz", "1", {"requests/api/get.py": "forged"}, url=work.as_uri())
    assert differ() == ("code of requests changed",)


def test_the_first_editable_install_is_no_change(work: Path, differ: Differ) -> None:
    editable(work, "1.0", "a")
    assert differ() == ()


def test_an_editable_install_in_place_of_a_copy_is_no_change(work: Path) -> None:
    install(work, "mine", "1.0", {})
    write(
        work / SITE,
        "mine-1.0.dist-info/direct_url.json",
        text=json.dumps({"url": work.as_uri(), "dir_info": {}}),
    )
    differ = watch(work, ".venv")
    editable(work, "1.0", "a")
    assert differ() == ()


def test_an_editable_install_in_place_of_another_package_is_a_change(
    work: Path, differ: Differ
) -> None:
    install(
        work,
        "requests",
        "2.31",
        REQUESTS | {"requests/api/get.py": "forged"},
        url=work.as_uri(),
    )
    assert differ() == ("-requests 2.31",)


def test_a_copy_of_the_workspace_is_a_package(work: Path, differ: Differ) -> None:
    install(work, "mine", "1.0", {"mine.py": "a"})
    write(
        work / SITE,
        "mine-1.0.dist-info/direct_url.json",
        text=json.dumps({"url": work.as_uri(), "dir_info": {}}),
    )
    assert differ() == ("+mine 1.0",)


def test_metadata_that_pip_left_behind_is_no_package(
    work: Path, differ: Differ
) -> None:
    write(work / SITE, "~equests-2.30.dist-info/METADATA")
    assert differ() == ()


def test_an_editable_install_of_another_project_is_a_package(
    work: Path, differ: Differ
) -> None:
    files = {"__editable__.theirs-1.pth": str(work.parent / "theirs")}
    install(work, "theirs", "1", files, url=(work.parent / "theirs").as_uri())
    assert differ() == ("+theirs 1",)


def test_egg_info_names_its_version(work: Path, differ: Differ) -> None:
    write(work / SITE, "older-0.8-py3.11.egg-info", text="Name: older\nVersion: 0.8\n")
    assert differ() == ("+older 0.8",)


def test_a_link_to_another_environment(tmp_path: Path) -> None:
    (tmp_path / ".venv").symlink_to("/somewhere")
    differ = watch(tmp_path, ".venv")
    assert differ() == ()
    (tmp_path / ".venv").unlink()
    (tmp_path / ".venv").symlink_to("/elsewhere")
    assert differ() == (".venv changed",)


def test_two_environments_are_told_apart(work: Path) -> None:
    shutil.copytree(work / ".venv", work / "second")
    differ = watch(work, ".venv", "second")
    write(work, f"{SITE}/sitecustomize.py")
    assert differ() == (".venv: new file sitecustomize.py",)


def test_hard_links_elsewhere_are_no_change(work: Path) -> None:
    shared = work / SITE / "handmade/a.py"
    (work / "cache1").hardlink_to(shared)
    differ = watch(work, ".venv")
    time.sleep(0.02)
    (work / "cache2").hardlink_to(shared)  # sets the time of change
    assert differ() == ()
    shared.write_text("y")  # the same size
    assert differ() == ("file handmade/a.py changed",)


def test_an_edit_through_a_hard_link_with_the_old_times(work: Path) -> None:
    shared = work / SITE / "attr/__init__.py"
    (work / "cache1").hardlink_to(shared)
    differ, info = watch(work, ".venv"), shared.stat()
    time.sleep(0.02)
    (work / "cache2").hardlink_to(shared)
    assert differ() == ()
    shared.write_text("b")
    os.utime(shared, ns=(info.st_atime_ns, info.st_mtime_ns))
    assert differ() == ("code of attrs changed",)


def test_names_that_are_not_utf8(work: Path, differ: Differ) -> None:
    (work / SITE / os.fsdecode(b"caf\xe9.py")).touch()
    assert differ() == (r"new file caf\xe9.py",)


def test_a_damaged_direct_url_is_not_editable(work: Path, differ: Differ) -> None:
    for number, text in enumerate(
        ("[", "[]", "{}", '{"dir_info": 1}', '{"dir_info": {"editable": true}}')
    ):
        write(work / SITE, f"bad{number}-1.dist-info/direct_url.json", text=text)
    assert len(differ()) == 5


def package(root: Path, path: str, version: str, text: str = "x") -> None:
    write(
        root / path,
        "package.json",
        text=json.dumps({"name": "any", "version": version}),
    )
    write(root / path, "index.js", text=text)


@pytest.fixture
def node(tmp_path: Path) -> Path:
    root = tmp_path / "w"
    package(root, "node_modules/left-pad", "1.3.0")
    package(root, "node_modules/@scope/tool", "2.0.0")
    package(root, "node_modules/left-pad/node_modules/inner", "1.0.0")
    write(
        root,
        "node_modules/left-pad/cli.js",
        "packages/mine/index.js",
        "node_modules/.bin/plain",
    )
    write(root, "node_modules/.package-lock.json")
    (root / "node_modules/.bin/left-pad").symlink_to("../left-pad/cli.js")
    (root / "node_modules/mine").symlink_to("../packages/mine")
    return root


@pytest.mark.parametrize(
    ("path", "label"),
    [
        ("left-pad/index.js", "code of left-pad changed"),
        ("left-pad/lib/new.js", "code of left-pad changed"),
        ("@scope/tool/index.js", "code of @scope/tool changed"),
        ("left-pad/node_modules/inner/index.js", "code of inner changed"),
        ("planted/index.js", "new file planted/index.js"),
        ("planted.js", "new file planted.js"),
        (".bin/other", "new file .bin/other"),
        (".bin/plain", "file .bin/plain changed"),
        (".cache/a", ""),
        (".vite/deps/a.js", ""),
        (".package-lock.json", ""),
        (".pnpm-workspace-state-v1.json", ""),
    ],
)
def test_files_of_node_packages(node: Path, path: str, label: str) -> None:
    differ = watch(node, "node_modules")
    assert differ() == ()
    write(node / "node_modules", path, text="changed")
    assert differ() == ((label,) if label else ())


def test_versions_of_node_packages(node: Path) -> None:
    differ = watch(node, "node_modules")
    package(node, "node_modules/left-pad", "1.4.0")
    package(node, "node_modules/@scope/new", "1.0.0")
    package(node, "node_modules/left-pad/node_modules/@scope/tool", "3.0.0")
    shutil.rmtree(node / "node_modules/left-pad/node_modules/inner")
    assert differ() == (
        "+@scope/new 1.0.0",
        "+@scope/tool 3.0.0",
        "-inner 1.0.0",
        "left-pad 1.3.0 → 1.4.0",
    )


def test_links_of_node_packages(node: Path) -> None:
    differ = watch(node, "node_modules")
    write(node, "packages/other/index.js")
    (node / "node_modules/other").symlink_to("../packages/other")  # a workspace of npm
    (node / "node_modules/.bin/tool").symlink_to("../@scope/tool/index.js")
    assert differ() == ()
    (node / "node_modules/foreign").symlink_to(node.parent)
    (node / "node_modules/.bin/left-pad").unlink()
    (node / "node_modules/.bin/left-pad").write_text("exit 0")
    assert differ() == ("new file .bin/left-pad", "new file foreign")


def test_packages_of_pnpm(node: Path) -> None:
    package(node, "node_modules/.pnpm/dep@1.0.0/node_modules/dep", "1.0.0")
    (node / "node_modules/dep").symlink_to(".pnpm/dep@1.0.0/node_modules/dep")
    differ = watch(node, "node_modules")
    (node / "node_modules/.pnpm/dep@1.0.0/node_modules/dep/index.js").write_text(
        "changed"
    )
    assert differ() == ("code of dep changed",)
    package(node, "node_modules/.pnpm/dep@2.0.0/node_modules/dep", "2.0.0")
    shutil.rmtree(node / "node_modules/.pnpm/dep@1.0.0")
    (node / "node_modules/dep").unlink()
    (node / "node_modules/dep").symlink_to(".pnpm/dep@2.0.0/node_modules/dep")
    assert differ() == ("dep 1.0.0 → 2.0.0",)


def test_a_damaged_package_json_has_no_version(node: Path) -> None:
    for number, text in enumerate(("{", "[]", "{}")):
        write(node, f"node_modules/bad{number}/package.json", text=text)
    installed = inspect(node, "node_modules")
    assert installed is not None
    assert [installed.versions[f"bad{number}"] for number in range(3)] == [
        [""],
        [""],
        [""],
    ]


def test_a_reinstall_of_the_same_node_packages_is_no_change(node: Path) -> None:
    differ = watch(node, "node_modules")
    for path in sorted((node / "node_modules").rglob("*.js*")):
        content = path.read_bytes()
        path.unlink()
        path.write_bytes(content)
    assert differ() == ()


def test_an_edit_of_a_node_package_that_keeps_the_size(node: Path) -> None:
    differ = watch(node, "node_modules")
    (node / "node_modules/left-pad/index.js").write_text("y")
    assert differ() == ("code of left-pad changed",)


def test_other_folders_and_files_as_a_whole(tmp_path: Path) -> None:
    write(tmp_path, "vendor/modules.txt", "vendor/a/b.go", ".pnp.cjs")
    differ = watch(tmp_path, "vendor", ".pnp.cjs")
    assert differ() == ()
    write(tmp_path, "vendor/a/b.go", text="changed")
    write(tmp_path, ".pnp.cjs", text="changed")
    assert differ() == (".pnp.cjs changed", "vendor changed")


def test_nothing_there(tmp_path: Path) -> None:
    assert inspect(tmp_path, "missing") is None


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("real")
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(root / ".venv")], check=True
    )
    return root


def test_a_real_environment(real: Path) -> None:
    installed = inspect(real, ".venv")
    assert installed is not None
    assert {"pyvenv.cfg", "bin/python"} <= installed.files.keys()
    differ = watch(real, ".venv")
    site = next((real / ".venv/lib").glob("python*/site-packages"))
    subprocess.run([str(real / ".venv/bin/python"), "-c", "import json"], check=True)
    assert differ() == ()
    (site / "sitecustomize.py").write_text("")
    assert differ() == ("new file sitecustomize.py",)


@pytest.mark.slow
def test_the_environment_of_these_tests() -> None:
    root = Path(sys.prefix)
    differ = watch(root.parent, root.name)
    installed = inspect(root.parent, root.name)
    assert installed is not None
    assert {"pytest", "pathspec", "hypothesis"} <= installed.versions.keys()
    assert differ() == ()
    files = [
        path
        for path in installed.files
        if path.endswith(("packages/pytest/__init__.py", "pathspec/__init__.py"))
    ]
    owners = dependencies._owners(files, installed, installed, str(root))
    assert sorted((one.name, one.is_as_installed) for one in owners.values()) == [
        ("pathspec", True),
        ("pytest", True),
    ]  # they have the hashes that pip wrote


@pytest.mark.bench
def test_many_files_are_compared_quickly(tmp_path: Path) -> None:
    for folder in range(20):
        files = {f"pack{folder}/f{number}.py": "" for number in range(300)}
        install(tmp_path, f"pack{folder}", "1", files)
    write(tmp_path, ".venv/pyvenv.cfg")
    differ = watch(tmp_path, ".venv")
    start = time.perf_counter()
    assert differ() == ()
    assert time.perf_counter() - start < 1  # some 0.06 s on an idle machine

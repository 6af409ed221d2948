"""Starting this program again inside of a copy: the workspace at its own path, as an
overlay over a frozen base; or a clone where no overlay works.

The program replaces this process by exec, so its id, its parent and its terminal stay.
The mounts are in a namespace that ends with its last process; a kill leaves no mount
behind.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from goalrunner.checking.namespace import find_tools, is_privileged, plain_reason
from goalrunner.checking.overlay import make_scratch, scratch_candidates
from goalrunner.checking.setup import record_in_place, was_set_up
from goalrunner.copies import INSIDE
from goalrunner.copies.clone import make_clone
from goalrunner.copies.frozen_base import FrozenBase, copy_errors, frozen_base
from goalrunner.copies.live_tree import LiveTree
from goalrunner.copies.run_copy import CopyRecord, RunCopy, copy_environment, take_slot
from goalrunner.core.errors import EnvironmentFailed, os_errors
from goalrunner.records.files import write_whole
from goalrunner.records.removal import remove
from goalrunner.records.run_folder import RunFolder
from goalrunner.snapshots.file_times import is_overlay
from goalrunner.snapshots.git import ask_git
from goalrunner.snapshots.store_folder import (
    make_store,
    share_store,
    store_name,
    store_of,
)
from goalrunner.system.launcher import SHELL

_PATIENCE = 30.0
"""Seconds for the mounts of a trial; they take some milliseconds."""


def trees_of(workspace: Path, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the folders to cover, without links: the repository of the workspace, or
    else the workspace itself.

    The work tree of a submodule, or one made by `git worktree`, has the folder of its
    repository elsewhere: that comes second.
    """
    real = Path(os.path.realpath(workspace))
    root = next(
        (folder for folder in (real, *real.parents) if _holds_git(folder)), real
    )
    if not (root / ".git").is_file():
        return (root,)
    code, output, errors = ask_git(
        root,
        "rev-parse",
        "--path-format=absolute",
        "--git-common-dir",
        environ=environ,
        timeout=_PATIENCE,
    )
    if code != 0:
        words = errors.decode(errors="replace").strip()
        raise EnvironmentFailed(
            f"the repository of {root} cannot be found: {words}",
            "run `git status` there",
        )
    repository = Path(os.path.realpath(os.fsdecode(output).rstrip("\n")))
    return (root,) if repository.is_relative_to(root) else (root, repository)


def _holds_git(folder: Path) -> bool:
    return os.path.lexists(folder / ".git")


def make_copy(
    run: RunFolder,
    workspace: Path,
    home: Path,
    environ: Mapping[str, str],
    *,
    clone: str = "",
) -> RunCopy:
    """Make the copy of a new run: an overlay, or a clone where none works.

    `clone` says why it must be one; empty if it need not. Raise EnvironmentFailed.
    """
    roots = trees_of(workspace, environ)
    for root in roots:
        # The copy would contain the folder that it is in.
        if Path(os.path.realpath(home)).is_relative_to(root):
            raise EnvironmentFailed(
                f"the runs in {home} lie below {root}, which is to be copied",
                "set GOAL_HOME to another folder, or run without --isolate",
            )
    copy = RunCopy.of(run)
    with copy_errors(roots[0]):
        copy.folder.mkdir(mode=0o700)
        copy.temporary.mkdir()
        _make_store(copy, home, workspace)
        record = CopyRecord(
            os.path.realpath(workspace), str(roots[0]), str(copy.folder)
        )
        why = clone
        if not why:
            try:
                tools = find_tools(environ, [roots[0]])
                layers = _layers_folder(copy, home, workspace)
                record = replace(record, layers=str(layers))
                record = replace(record, redirects=_may_redirect(layers))
                _try_overlay(copy, record, tools)
            except EnvironmentFailed as error:
                why = f"no overlay here: {error.message}"
        if why:
            parts, missing = make_clone(roots, copy.folder / "clone", why, environ)
            record = replace(
                record, layers=str(copy.folder), clone=parts, shared=missing
            )
        else:
            record = _with_bases(record, copy, roots, home, environ)
            _keep_setup(copy, home, workspace)
            for number in range(len(roots)):
                # Without it, `_mounting` takes the content of the copy for lost.
                (record.layer(number) / "u").mkdir(mode=0o700, parents=True)
    # Last: a folder without a record is no copy.
    copy.write(record)
    return copy


def _with_bases(
    record: CopyRecord,
    copy: RunCopy,
    roots: Sequence[Path],
    home: Path,
    environ: Mapping[str, str],
) -> CopyRecord:
    """Return the record of an overlay, with the frozen bases brought up to date."""
    bases: list[str] = []
    shared: tuple[str, ...] = ()
    for root in roots:
        with frozen_base(home, root, environ) as (base, tree):
            base.add_user(copy.folder)
            bases.append(str(base.folder))
            if root == roots[0]:
                shared = tuple(tree.shared)
            _note_shared(base, tree)
    return replace(record, bases=tuple(bases), shared=shared)


def _try_overlay(copy: RunCopy, record: CopyRecord, tools: Mapping[str, str]) -> None:
    """Mount an overlay over the live tree, before anything is copied.

    Raise EnvironmentFailed if that is not possible here, and OSError.
    """
    root = Path(record.root)
    layer = Path(record.layers, "trial")
    options = _options(record, shares=True)
    lines = _overlay_lines(tools, layer, copy.temporary, str(root), options)
    try:
        _try(_script(lines), tools, root)
    finally:
        remove(layer)


def _may_redirect(layers: Path) -> bool:
    """Return whether overlays with upper layers in this folder, which is made, may note
    where a renamed folder was.

    The kernel permits this only with attributes that root of a container with a user
    namespace cannot set.
    """
    layers.mkdir(mode=0o700, exist_ok=True)
    try:
        os.setxattr(layers, "trusted.goal", b"")
    except OSError:
        return False
    return is_privileged()


def _layers_folder(copy: RunCopy, home: Path, workspace: Path) -> Path:
    """Return the folder for the upper layers of a copy.

    An upper layer cannot lie on an overlay, as the disk of most containers is one: then
    another file system is looked for, and folders of runs that are gone are removed
    there.
    """
    if not is_overlay(copy.folder.resolve()):
        return copy.folder
    for candidate in scratch_candidates(home, workspace):
        shared_folder = candidate.with_name(candidate.name.replace("checks", "copies"))
        make_scratch(shared_folder)
        # Runs of another GOAL_HOME have their layers beside this folder.
        folder = shared_folder / store_name(home.resolve())
        make_scratch(folder)
        for other in folder.iterdir():
            run = RunFolder(copy.folder.parent.with_name(other.name))
            if not RunCopy.of(run).folder.exists():
                remove(other)
        return folder / copy.folder.parent.name
    raise EnvironmentFailed(
        f"a copy needs a file system that is no overlay, and {home} lies on one",
        "mount a volume or a tmpfs, and set GOAL_HOME to it; or run without --isolate",
    )


def _note_shared(base: FrozenBase, tree: LiveTree) -> None:
    """Save what a mount of this base needs to know of the live tree."""
    lines = [str(tree.root), str(int(bool(tree.shared))), *tree.object_folders]
    text = b"\0".join(map(os.fsencode, lines))
    # Another copy on this base may read it at the same time.
    write_whole(base.folder / "mount", text, lasting=False)


def _make_store(copy: RunCopy, home: Path, workspace: Path) -> None:
    shared = store_of(workspace.resolve(), home)
    make_store(shared)
    copy.store.mkdir(mode=0o700)
    # `git gc` in the copy moves refs into the last of them. If each store had its own,
    # the snapshots would be missing in the other one.
    for name in ("objects", "refs", "packed-refs"):
        (copy.store / name).symlink_to(shared / name)


def _keep_setup(copy: RunCopy, home: Path, workspace: Path) -> None:
    """Note in an overlay what `setup` has installed in the workspace: it sees that."""
    shared = store_of(workspace.resolve(), home)
    if was_set_up(shared, home):
        installed = record_in_place(shared, home)
        write_whole(record_in_place(copy.store, home), installed.read_bytes())


@dataclass(frozen=True)
class InnerCommand:
    """A command line inside of a copy.

    While its handles are open, no other process can enter the copy.
    """

    argv: list[str]
    environ: dict[str, str]
    handles: tuple[int, ...]

    def replace_process(self) -> NoReturn:
        """Become the command. Raise EnvironmentFailed if that fails."""
        sys.stdout.flush()
        sys.stderr.flush()
        with os_errors("the copy cannot be entered", "", EnvironmentFailed):
            os.execve(self.argv[0], self.argv, self.environ)

    def run(self) -> subprocess.CompletedProcess[bytes]:
        """Run the command beside this process and return what it printed.

        Raise EnvironmentFailed if it cannot be started.
        """
        with os_errors("the copy cannot be entered", "", EnvironmentFailed):
            process = subprocess.Popen(
                self.argv,
                env=self.environ,
                # It stays open, so that the command sees its end if this process dies.
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=self.handles,
            )
        with process:
            assert process.stdout is not None
            printed = process.stdout.read()
            process.wait()
        return subprocess.CompletedProcess(self.argv, process.returncode, printed)

    def close(self) -> None:
        """Release the copy."""
        for handle in self.handles:
            os.close(handle)


def goal_command(arguments: Sequence[str]) -> list[str]:
    """Return the command line that runs `goal ARGUMENTS` with this Python."""
    # With -P, no file of the current folder is imported in place of a module.
    return [sys.executable, "-P", "-m", "goalrunner", *arguments]


def inner_command(
    copy: RunCopy, home: Path, program: Sequence[str], environ: Mapping[str, str]
) -> InnerCommand:
    """Return a command line inside of the copy, in the current folder.

    Raise EnvironmentFailed, and WorkspaceBusy if the copy is in use.
    """
    record = copy.read()
    with ExitStack() as undo:
        lock = copy.lock()
        undo.callback(os.close, lock)
        slots = home / "bases" / store_name(Path(record.root)) / "slots"
        with os_errors("the copy cannot be entered", "", EnvironmentFailed):
            slot, slot_lock = take_slot(slots, record.slot)
            undo.callback(os.close, slot_lock)
            sharing = share_store(store_of(Path(record.workspace), home))
            undo.callback(os.close, sharing)
        # A resumed run asks for the same number again, and so keeps its databases.
        copy.write(replace(record, slot=slot))
        inside = copy_environment(copy, record, slot, environ)
        inside[INSIDE] = str(copy.folder)
        argv = list(program)
        if record.clone is None:
            tools = find_tools(environ, [Path(record.root)])
            mounting = _mounting(copy, record, tools)
            _try(mounting, tools, Path(record.root))
            argv = _entering(mounting, tools, argv, Path.cwd())
        # From here on, the command that is returned has the handles.
        undo.pop_all()
    return InnerCommand(argv, inside, (lock, slot_lock, sharing))


def _mounting(copy: RunCopy, record: CopyRecord, tools: Mapping[str, str]) -> str:
    """Return the shell lines that mount every layer of the copy."""
    if record.redirects and not is_privileged():
        raise EnvironmentFailed(
            f"root made the copy {copy.folder}, with rights that this process lacks",
            "resume the run as it was started",
        )
    lines: list[list[str]] = []
    for number, folder in enumerate(record.bases):
        base = FrozenBase(Path(folder))
        if not base.files.is_dir():
            raise EnvironmentFailed(
                f"the frozen base of the copy is gone: {base.folder}",
                _saving(copy),
            )
        root, shares, *objects = map(
            os.fsdecode, (base.folder / "mount").read_bytes().split(b"\0")
        )
        layer = record.layer(number)
        if not (layer / "u").is_dir():
            raise EnvironmentFailed(
                f"what the run wrote in its copy is gone: {layer}",
                _saving(copy),
            )
        for index, path in enumerate(objects):
            place = str(base.objects / str(index))
            # Once the overlay is mounted, the live objects have no path any more.
            lines.append([tools["mount"], "-i", "--bind", f"{root}/{path}", place])
        options = _options(record, shares=shares == "1")
        lines += _overlay_lines(tools, layer, base.files, root, options)
    return _script(lines)


def _options(record: CopyRecord, *, shares: bool) -> str:
    """Return the options of an overlay; one that `shares` has the live tree below."""
    lower = "b:l" if shares else "b"
    more = "redirect_dir=on" if record.redirects else "userxattr"
    return f"lowerdir={lower},upperdir=u,workdir=w,{more}"


def _overlay_lines(
    tools: Mapping[str, str], layer: Path, base: Path, root: str, options: str
) -> list[list[str]]:
    """Return the commands that mount one overlay at `root`, and make its folders.

    Its lower layers are `b`, the base, and `l`, the live tree.
    """
    for name in ("u", "w", "b", "l"):
        (layer / name).mkdir(mode=0o700, parents=True, exist_ok=True)
    # With -i, no helper program of a file system is started in place of the mount.
    mount = [tools["mount"], "-i"]
    return [
        [*mount, "--bind", str(base), str(layer / "b")],
        [*mount, "--bind", root, str(layer / "l")],
        # The options name the layers by relative paths: in a long path, or one with a
        # comma or a colon, mount(2) would find other options.
        ["cd", str(layer)],
        [*mount, "-t", "overlay", "-o", options, "overlay", root],
        ["cd", "/"],
        # The overlay holds its layers. Without this, the live tree could be reached
        # through `l` in the copy.
        *([tools["umount"], "-i", str(layer / name)] for name in ("b", "l")),
    ]


def _script(lines: Sequence[Sequence[str]]) -> str:
    """Return a shell script that stops at the first command that fails."""
    return "\n".join(["set -e", *map(shlex.join, lines)])


def _saving(copy: RunCopy) -> str:
    run = copy.folder.parent.name
    return f"goal export {run} --patch saves what was done; a new run makes a new copy"


def _entering(
    mounting: str, tools: Mapping[str, str], program: Sequence[str], folder: Path
) -> list[str]:
    """Return the command line that mounts, enters a folder, and becomes `program` with
    the ids of the caller.
    """
    unshare = tools["unshare"]
    private = ["--mount", "--propagation", "private"]
    entering = f"{mounting}\ncd {shlex.quote(str(folder))}\n"
    if is_privileged():
        last = f"exec {shlex.join(program)}"
        return [unshare, *private, SHELL, "-c", f"{entering}{last}"]
    # Only root of a namespace may mount; programs such as git and npm behave
    # differently as root, so a second namespace gives the ids back.
    ids = [f"--map-user={os.geteuid()}", f"--map-group={os.getegid()}"]
    last = f"exec {shlex.join([unshare, '--user', *ids, *program])}"
    script = f"{entering}{last}"
    return [unshare, "--user", "--map-root-user", *private, SHELL, "-c", script]


def _try(mounting: str, tools: Mapping[str, str], root: Path) -> None:
    """Mount once in a process of its own: after exec, nothing could say what failed.

    Raise EnvironmentFailed.
    """
    argv = _entering(mounting, tools, [tools["cat"], "/dev/null"], Path("/"))
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise EnvironmentFailed(
            f"the mounts of the copy took over {_PATIENCE:g} s", "run without --isolate"
        ) from None
    if done.returncode != 0:
        words = done.stderr.decode(errors="replace").strip().partition("\n")[0]
        words = plain_reason(words, [root])
        raise EnvironmentFailed(
            f"the copy cannot be mounted ({words or 'the mount failed'})",
            "run without --isolate",
        )

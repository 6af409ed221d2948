"""`goal verify`, `goal show`, `goal diff` and `goal restore` on a real run, with their whole outputs."""

from __future__ import annotations

import asyncio
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from goalrunner.cli.main import main
from goalrunner.snapshots.store import SnapshotStore
from tests.support.finished_run import FinishedRun, finish_run
from tests.support.logs import rechained
from tests.support.workspaces import listing, write

pytestmark = pytest.mark.slow

PATCH = """\
diff --git a/hello.txt b/hello.txt
new file mode 100644
index 0000000..ce01362
--- /dev/null
+++ b/hello.txt
@@ -0,0 +1 @@
+hello
diff --git a/notes.txt b/notes.txt
index 814f4a4..f04eb26 100644
--- a/notes.txt
+++ b/notes.txt
@@ -1,2 +1,3 @@
 one
-two
+2
+three
"""
"""Round 1."""


class Terminal(io.StringIO):
    """A stdin that is a terminal."""

    def isatty(self) -> bool:
        """Yes."""
        return True


@pytest.fixture(scope="module")
def kept_run(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    """One run for all tests that only read."""
    return finish_run(tmp_path_factory.mktemp("kept"))


@pytest.fixture
def run(
    kept_run: FinishedRun, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> FinishedRun:
    """Its records in the home of this test; its workspace is the current folder."""
    monkeypatch.chdir(kept_run.workspace)
    return kept_run.copied(own_home)


@pytest.fixture
def own_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FinishedRun:
    """A run whose workspace, the current folder, may be changed."""
    made = finish_run(tmp_path)
    monkeypatch.chdir(made.workspace)
    monkeypatch.setenv("GOAL_HOME", str(made.home))
    return made


def answered(
    run: FinishedRun, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, str, str]:
    """Exit code, stdout and stderr, with the words that differ each time replaced."""
    capsys.readouterr()
    code = main(list(arguments))
    said = capsys.readouterr()
    names = (
        (str(run.folder.path), "RUN_FOLDER"),
        (run.folder.run_id, "RUN"),
        (str(run.workspace), "WORK"),
    )
    out, err = said.out, said.err
    for value, name in names:
        out, err = out.replace(value, name), err.replace(value, name)
    return code, out, err


def test_a_run_that_holds_is_verified_in_one_line(
    run: FinishedRun, capsys: pytest.CaptureFixture[str]
) -> None:
    assert answered(run, capsys, "verify") == (
        0,
        "verified: 48 events, 11 messages, 4 artifacts, 1 citation\n",
        "",
    )


def test_what_does_not_hold_is_named_and_exits_4(
    run: FinishedRun, capsys: pytest.CaptureFixture[str]
) -> None:
    data = bytearray(run.folder.transcript.read_bytes())
    data[5] ^= 1
    run.folder.transcript.write_bytes(data)

    what = "the message of event 9 is missing, or differs from what was recorded"
    said = f"not intact: RUN_FOLDER/transcript.jsonl, byte 0: {what}\n"
    assert answered(run, capsys, "verify", run.folder.run_id) == (4, said, "")

    code, out, _ = answered(run, capsys, "verify", "--json")
    assert (code, json.loads(out)) == (
        4,
        {
            "run_id": "RUN",
            "path": "RUN_FOLDER",
            "verified": False,
            "events": 9,
            "messages": 0,
            "artifacts": 1,
            "citations": 0,
            "notes": [],
            "broken": {"file": "RUN_FOLDER/transcript.jsonl", "byte": 0, "what": what},
        },
    )


def test_what_could_not_be_checked_is_said_beside_it(
    run: FinishedRun, capsys: pytest.CaptureFixture[str]
) -> None:
    run.folder.outcome.unlink()
    lines = run.folder.events.read_bytes().splitlines(keepends=True)
    run.folder.events.write_bytes(b"".join(lines[:-1]))
    assert answered(run, capsys, "verify") == (
        0,
        (
            "verified: 47 events, 11 messages, 4 artifacts, 1 citation\n"
            "note: the run has not ended; only what is recorded so far was checked\n"
        ),
        "",
    )


def test_one_observation_is_printed_whole(
    run: FinishedRun, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = answered(run, capsys, "show", run.folder.run_id, "o6")
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert lines[:6] == [
        "id         o6",
        "round      2",
        "source     shell",
        "command    cat hello.txt; grep -c friend hello.txt",
        "facts      exit 0",
        "seen by    the runner",
    ]
    assert lines[-4:] == ["output     21 bytes", "", "hello, dear friend", "1"]
    assert answered(run, capsys, "show", "o6")[1] == out  # of the newest run
    value = json.loads(answered(run, capsys, "show", "o6", "--json")[1])
    assert (value["run_id"], value["id"], value["text"]) == (
        "RUN",
        "o6",
        "hello, dear friend\n1\n",
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["o99"],
            "run RUN has no observation o99; the last one is o7\ngoal show RUN --events lists the observations\n",
        ),
        (
            ["o6", "--events"],
            "an observation, --path, --evidence, --state (--at) and --events cannot be combined\nuse one of them\n",
        ),
    ],
)
def test_an_observation_that_cannot_be_shown_is_an_error(
    run: FinishedRun,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    said: str,
) -> None:
    assert answered(run, capsys, "show", *arguments) == (2, "", f"Error: {said}")


def test_a_patch_is_written_byte_for_byte_and_can_be_applied(
    own_run: FinishedRun, tmp_path: Path
) -> None:
    (own_run.workspace / "latin.txt").write_bytes(b"caf\xe9\r\n")
    asyncio.run(_snapshots_anew(own_run))
    goal = [sys.executable, "-m", "goalrunner", "diff"]
    patch = subprocess.run(goal, capture_output=True, check=True).stdout
    assert b"+caf\xe9\r\n" in patch
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "notes.txt").write_text("one\ntwo\n")
    subprocess.run(
        ["git", "apply"], cwd=copy, input=patch, check=True, capture_output=True
    )
    assert (copy / "latin.txt").read_bytes() == b"caf\xe9\r\n"
    assert (copy / "hello.txt").read_text() == "hello, dear friend\n"


async def _snapshots_anew(run: FinishedRun) -> None:
    """Replace the snapshot at the end of round 2 by one of the present workspace."""
    store = SnapshotStore(run.workspace, run.home)
    new = (await store.snapshot()).model_dump_json()
    store.close()
    lines = run.folder.events.read_text().splitlines()
    ended = [json.loads(line) for line in lines if '"round_finished"' in line]
    old = json.dumps(ended[1]["event"]["snapshot"], separators=(",", ":"))
    run.folder.events.write_bytes(
        rechained(line.replace(old, new).encode() + b"\n" for line in lines)
    )


@pytest.fixture
def pager(tmp_path: Path) -> Path:
    """A pager that copies what it reads into the file `paged`."""
    program = tmp_path / "pager"
    program.write_text(f"#!/bin/sh\ncat > {tmp_path}/paged\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("environ", "options", "coloured", "paged"),
    [
        ({}, [], True, True),
        ({"NO_COLOR": "1"}, [], False, True),
        ({}, ["--no-pager"], True, False),
        ({"PAGER": ""}, [], True, False),
        ({"PAGER": "/nowhere/less"}, [], True, False),
    ],
)
def test_at_a_terminal_a_patch_has_colours_and_a_pager(
    run: FinishedRun,
    tmp_path: Path,
    pager: Path,
    monkeypatch: pytest.MonkeyPatch,
    environ: dict[str, str],
    options: list[str],
    coloured: bool,
    paged: bool,
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in {
        "TERM": "xterm",
        "PAGER": str(pager),
        "COLUMNS": "80",
        "LINES": "5",
        **environ,
    }.items():
        monkeypatch.setenv(name, value)
    out = Terminal()
    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr(sys, "stdout", out)
    assert main(["diff", run.folder.run_id, "1", *options]) == 0
    shown = (tmp_path / "paged").read_text() if paged else out.getvalue()
    assert (out.getvalue() == "") is paged
    green = "\x1b[32m+hello\x1b[m\n" if coloured else "\n+hello\n"
    assert green in shown
    assert ("\x1b" in shown) is coloured


def test_nothing_to_restore_is_said_without_a_question(
    own_run: FinishedRun,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    said = "Nothing to restore: WORK is as round 2 left it.\nTo undo the whole run: goal restore RUN 0\n"
    assert answered(own_run, capsys, "restore") == (0, said, "")


def test_the_report_of_a_watchdog_is_shown_before_a_restore(
    own_run: FinishedRun, capsys: pytest.CaptureFixture[str]
) -> None:
    line = f"An interrupted check in {own_run.workspace} was undone."
    report = own_run.home / "checks" / "1.undone"
    report.parent.mkdir(exist_ok=True)
    report.write_text(json.dumps([str(own_run.workspace.resolve()), line]))
    code, out, err = answered(own_run, capsys, "restore")
    assert (code, out.startswith("Nothing to restore")) == (0, True)
    assert err == "An interrupted check in WORK was undone.\n"
    assert not report.exists()


def test_the_patch_of_a_round(
    run: FinishedRun, capsys: pytest.CaptureFixture[str]
) -> None:
    assert answered(run, capsys, "diff", run.folder.run_id, "1") == (0, PATCH, "")
    code, out, _ = answered(run, capsys, "diff", run.folder.run_id, "2")
    assert (code, out.splitlines()[-2:]) == (0, ["-hello", "+hello, dear friend"])


def test_the_patch_of_the_whole_run(
    run: FinishedRun, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = answered(run, capsys, "diff")
    assert code == 0
    assert "-hello" not in out.splitlines()
    assert {"+hello, dear friend", "+++ b/notes.txt"} <= set(out.splitlines())
    code, out, _ = answered(run, capsys, "diff", "--stat")
    assert out.splitlines()[-1].startswith("2 paths in the run, ")
    code, out, _ = answered(run, capsys, "diff", "--json")
    assert json.loads(out)["round"] is None


def test_the_figures_of_a_round(
    run: FinishedRun, capsys: pytest.CaptureFixture[str]
) -> None:
    assert answered(run, capsys, "diff", run.folder.run_id, "1", "--stat") == (
        0,
        "hello.txt  +1 −0  added\nnotes.txt  +2 −1\n2 paths in round 1, +3 −1\n",
        "",
    )
    code, out, _ = answered(run, capsys, "diff", run.folder.run_id, "1", "--json")
    assert (code, json.loads(out)["patch"]) == (0, PATCH)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (
            ["diff", "ID", "0"],
            2,
            "round 0 is the start of the run, which changed nothing\nrounds are counted from 1\n",
        ),
        (
            ["diff", "ID", "7"],
            2,
            "round 7 of run RUN does not exist\nthe last ended round is 2\n",
        ),
        (
            ["restore", "ID", "7", "--yes"],
            2,
            "round 7 of run RUN does not exist\nthe last ended round is 2\n",
        ),
        (
            ["restore", "ID", "1"],
            2,
            "goal restore asks before it changes files, and stdin is not a terminal\nadd --yes\n",
        ),
        (
            ["restore", "ID", "1", "--snapshot", "ab", "--yes"],
            2,
            "ROUND and --snapshot cannot be combined\nuse one of them\n",
        ),
        (
            ["restore", "ID", "--snapshot", "zz", "--yes"],
            2,
            'no snapshot "zz" is kept of WORK\ngive the id, or its beginning\n',
        ),
    ],
)
def test_what_there_is_not_is_refused(
    run: FinishedRun,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    code: int,
    said: str,
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    before = listing(run.workspace)
    given = [run.folder.run_id if word == "ID" else word for word in arguments]
    found, out, err = answered(run, capsys, *given)
    assert (found, err) == (code, f"Error: {said}")
    assert (out != "") == ("asks before" in said), (
        "the plan is shown before the question"
    )
    assert listing(run.workspace) == before


def test_there_and_back_again(
    own_run: FinishedRun, capsys: pytest.CaptureFixture[str]
) -> None:
    write(own_run.workspace, {"mine.txt": "of a person\n"})
    before = listing(own_run.workspace)

    code, out, err = answered(
        own_run, capsys, "restore", own_run.folder.run_id, "0", "--yes"
    )

    back = out.split()[-1]
    assert (code, err) == (0, "")
    assert out == (
        "restored   WORK as it was at the start of the run\n"
        "deleted    hello.txt\n"
        "deleted    mine.txt\n"
        "modified   notes.txt\n"
        f"before     kept as snapshot {back}; to undo the restore:\n"
        f"           goal restore RUN --snapshot {back}\n"
    )
    assert listing(own_run.workspace) == {"notes.txt": b"- one\ntwo\n"}

    code, out, _ = answered(
        own_run, capsys, "restore", own_run.folder.run_id, "--snapshot", back, "--yes"
    )
    assert code == 0
    assert out.startswith(
        f"restored   WORK as snapshot {back} holds it\nadded      hello.txt\nadded      mine.txt\nmodified   notes.txt\n"
    )
    assert listing(own_run.workspace) == before

    again = answered(own_run, capsys, "restore", "--snapshot", back, "--yes")
    assert again == (
        0,
        f"Nothing to restore: WORK is as snapshot {back} holds it.\n",
        "",
    )


@pytest.mark.parametrize("answer", ["n\n", "\n", "", "perhaps\n"])
def test_it_asks_and_a_no_changes_nothing(
    own_run: FinishedRun,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    before = listing(own_run.workspace)

    code, out, err = answered(own_run, capsys, "restore", own_run.folder.run_id, "1")

    question = "Change 1 path? The state before is kept as a snapshot. [y/N]\n"
    assert (code, err) == (1, f"{question}nothing was changed\n")
    assert out == (
        "run        RUN\ngoal       Write a friendly greeting.\nworkspace  WORK\n"
        "restore    WORK as round 1 left it\nmodified   hello.txt\n"
    )
    assert listing(own_run.workspace) == before


def test_a_yes_restores(
    own_run: FinishedRun,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal("Yes\n"))
    code, out, _ = answered(own_run, capsys, "restore", own_run.folder.run_id, "1")
    assert code == 0
    assert "restored   WORK as round 1 left it\n" in out
    assert (own_run.workspace / "hello.txt").read_text() == "hello\n"


def test_a_workspace_in_which_a_run_works_is_left_alone(
    own_run: FinishedRun, capsys: pytest.CaptureFixture[str]
) -> None:
    store = SnapshotStore(own_run.workspace, own_run.home)
    asyncio.run(store.snapshot())
    before = listing(own_run.workspace)
    refused = answered(own_run, capsys, "restore", "--yes", own_run.folder.run_id, "1")
    assert refused == (
        4,
        "",
        (
            f"Error: another run is active in WORK (process {os.getpid()})\n"
            "wait for it to end, or name another workspace: --workspace DIR\n"
        ),
    )
    assert listing(own_run.workspace) == before
    store.close()


def test_a_workspace_that_is_gone_is_named_and_can_be_made_anew(
    own_run: FinishedRun,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(own_run.home)
    shutil.rmtree(own_run.workspace)
    run_id = own_run.folder.run_id
    refused = answered(own_run, capsys, "restore", run_id, "--yes")
    assert refused == (
        4,
        "",
        "Error: the workspace WORK is gone\nmkdir -p WORK, then restore into it\n",
    )
    assert answered(own_run, capsys, "diff", own_run.folder.run_id, "1")[1] == PATCH

    own_run.workspace.mkdir()
    assert answered(own_run, capsys, "restore", run_id, "--yes")[0] == 0
    assert (own_run.workspace / "hello.txt").read_text() == "hello, dear friend\n"


def test_a_round_that_changed_nothing_says_so(
    own_run: FinishedRun, capsys: pytest.CaptureFixture[str]
) -> None:
    log = own_run.folder.events
    lines = log.read_text().splitlines()
    finished = [json.loads(line) for line in lines if '"round_finished"' in line]
    same = json.dumps(finished[0]["event"]["snapshot"], separators=(",", ":"))
    other = json.dumps(finished[1]["event"]["snapshot"], separators=(",", ":"))
    log.write_bytes(
        rechained(line.replace(other, same).encode() + b"\n" for line in lines)
    )
    for more in ([], ["--stat"]):
        asked = ("diff", own_run.folder.run_id, "2", *more)
        assert answered(own_run, capsys, *asked) == (
            0,
            "",
            "Round 2 of run RUN changed no files.\n",
        )

"""The baseline of `goal check` is reused while nothing that it depends on changes."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from goalrunner.app.kept_baseline import (
    FOLDER,
    LONGEST_AGE,
    BaselineFile,
    BaselineKey,
    KeptBaseline,
    is_repeatable,
)
from goalrunner.app.previous_run import read_events
from goalrunner.checking.base_results import KeptResult
from goalrunner.cli.main import main
from goalrunner.core.events import BaselineTaken, ValidatorsFinished
from goalrunner.core.observation import Snapshot
from goalrunner.core.verdict import CollectedTests, ValidatorResult
from goalrunner.engine.validator_results import Results
from goalrunner.records.run_folder import RunFolder
from goalrunner.records.run_summaries import run_summaries
from tests.support.workspaces import git, make_repository

NOW = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
KEY = BaselineKey(content="a", checks="b", environment="c", programs="d")


def kept(at: datetime = NOW) -> KeptBaseline:
    result = KeptResult(
        name="check",
        passed=False,
        tests=CollectedTests(endings={"test_a.py::test_b": "failed"}),
    )
    return KeptBaseline(
        at=at,
        key=KEY,
        snapshot=Snapshot(id="1" * 64, tree="1" * 40),
        results=(result,),
        outputs=("\xff",),
    )


@pytest.mark.parametrize(
    ("later", "change", "age"),
    [
        (0.0, {}, 0.0),
        (LONGEST_AGE, {}, LONGEST_AGE),
        (LONGEST_AGE + 1, {}, None),
        (-1.0, {}, None),
        *((1.0, {field: "x"}, None) for field in BaselineKey.model_fields),
    ],
)
def test_a_baseline_counts_for_ten_minutes_and_for_what_it_is_about(
    later: float, change: dict[str, str], age: float | None
) -> None:
    key = KEY.model_copy(update=change)
    assert kept().age(key, NOW + timedelta(seconds=later)) == age


@pytest.mark.parametrize(
    ("result", "repeatable"),
    [
        ({"passed": True, "reason": "passed"}, True),
        ({"passed": False, "reason": "red", "exit_code": 1}, True),
        ({"passed": False, "reason": "red", "cannot_run": True}, False),
        ({"passed": False, "reason": "red", "exit_code": 127}, False),
        ({"passed": False, "reason": "not_found"}, False),
        ({"passed": False, "reason": "timeout"}, False),
        ({"passed": False, "reason": "crashed"}, False),
        ({"passed": False, "reason": "flaky"}, False),
        ({"passed": True, "reason": "passed", "steady": False}, False),
        ({"passed": True, "reason": "passed", "hidden": True}, False),
    ],
)
def test_what_could_not_run_or_may_differ_the_next_time_is_not_kept(
    result: dict[str, Any], repeatable: bool
) -> None:
    one = ValidatorResult(**{"name": "check", "steady": True, **result})
    assert is_repeatable(Results(((one, None),)), incomplete=False) is repeatable
    assert not is_repeatable(Results(((one, None),), ("check",)), incomplete=False)


def test_without_a_result_nothing_is_kept() -> None:
    assert not is_repeatable(Results(()), incomplete=False)


def test_a_baseline_is_read_as_it_was_written_in_a_private_file(
    tmp_path: Path,
) -> None:
    file = BaselineFile(tmp_path, tmp_path / "workspace")
    assert file.read() is None
    file.write(kept())
    assert file.read() == kept()
    assert file.path.stat().st_mode & 0o777 == 0o600
    assert BaselineFile(tmp_path, tmp_path / "other").read() is None


def replace_by_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-10]),
        lambda path: path.write_text("{}"),
        lambda path: path.write_text(path.read_text().replace('["ÿ"]', "[]")),
        lambda path: path.write_text(path.read_text().replace("ÿ", "ŵ")),
        lambda path: path.write_text(path.read_text().replace('00Z"', '00"')),
        lambda path: path.chmod(0o644),
        lambda path: path.rename(path.with_name("x")) and path.symlink_to("x"),
        replace_by_pipe,
    ],
    ids=[
        "torn",
        "empty",
        "no output",
        "no byte",
        "no zone",
        "readable by others",
        "link",
        "pipe",
    ],
)
def test_a_file_that_this_program_did_not_write_so_is_not_read(
    spoil: Callable[[Path], object], tmp_path: Path
) -> None:
    file = BaselineFile(tmp_path, tmp_path)
    file.write(kept())
    spoil(file.path)
    assert file.read() is None


def test_the_files_of_other_workspaces_are_removed_when_they_are_too_old(
    tmp_path: Path,
) -> None:
    old, new = (BaselineFile(tmp_path, tmp_path / name) for name in ("old", "new"))
    old.write(kept())
    os.utime(old.path, (0, 0))
    new.write(kept())
    assert [path.name for path in (tmp_path / FOLDER).iterdir()] == [new.path.name]


def test_a_name_that_is_not_utf_8_is_not_kept(tmp_path: Path) -> None:
    file = BaselineFile(tmp_path, tmp_path)
    file.write(kept().model_copy(update={"changed": ("caf\udce9",)}))
    assert file.read() is None


GOAL = """\
objective = "Write it."
max_iterations = 1
[[validators]]
name = "done"
run = "echo ran >> {count}; cat result.txt 2>/dev/null | grep -qx done"
[agent]
use = "command"
command = ["sh", "-c", "echo done > result.txt"]
"""


class Project:
    """A repository with a goal whose validator counts its runs outside of it."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.home = home
        self.count = folder / "count"
        text = GOAL.format(count=self.count)
        files = {"goal.toml": text, "a.py": "a = 1\n", ".gitignore": ".venv/\nx.ini\n"}
        self.folder = make_repository(folder / "project", files)
        package = self.folder / ".venv/lib/python3.12/site-packages/some.py"
        package.parent.mkdir(parents=True)
        package.write_text("a = 1\n")
        (self.folder / ".venv/pyvenv.cfg").write_text("home = /usr/bin\n")
        (self.folder / "x.ini").write_text("a\n")

    @property
    def runs(self) -> int:
        """How often the validator has run."""
        return len(self.count.read_text().splitlines())

    @property
    def file(self) -> Path:
        (path,) = (self.home / FOLDER).iterdir()
        return path

    def edit_goal(self, old: str, new: str) -> None:
        path = self.folder / "goal.toml"
        path.write_text(path.read_text().replace(old, new))

    def baseline(self) -> BaselineTaken:
        """The baseline of the newest run."""
        run_id = str(run_summaries(self.home)[0]["run_id"])
        events = read_events(run_id)
        return next(one for one in events if isinstance(one, BaselineTaken))


@pytest.fixture
def project(tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    made = Project(tmp_path, own_home)
    monkeypatch.chdir(made.folder)
    return made


def test_a_run_after_a_check_does_not_run_the_validator_again_before_round_1(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check"]) == 0
    said = capsys.readouterr()
    assert "Running the validators once" in said.err
    assert "reused" not in said.out
    assert main(["check", "--json"]) == 0
    said = capsys.readouterr()
    assert "Running the validators once" not in said.err
    assert json.loads(said.out)["baseline"]["age"] >= 0
    assert project.runs == 1
    assert main(["run"]) == 0
    said = capsys.readouterr()
    assert "baseline reused from " in said.out
    assert project.runs == 2, "only that of round 1"
    reused = project.baseline()
    assert reused.age is not None
    assert reused.standing == "red"
    main(["show"])
    assert "baseline reused from " in capsys.readouterr().out


def test_a_reused_baseline_is_recorded_as_one_that_was_taken(project: Project) -> None:
    main(["check"])
    main(["run", "--quiet"])
    reused = project.baseline()
    (project.folder / "result.txt").unlink()
    main(["run", "--quiet", "--fresh"])
    taken = project.baseline()
    assert taken.age is None
    varying = {"age", "content", "results"}
    assert reused.model_dump(exclude=varying) == taken.model_dump(exclude=varying)
    assert (reused.content, taken.content) != (None, None)
    assert reused.content == taken.content
    [was], [now] = reused.results, taken.results
    assert was.model_dump(exclude={"duration"}) == now.model_dump(exclude={"duration"})


SUITE = """\
from a import f

def test_f():
    with open({count!r}, "a") as file:
        file.write("ran\\n")
    assert f() == 2
"""
AGENT = """
[agent]
use = "command"
command = ["sh", "-c", "echo 'def f(): return 2' > a.py"]
"""


@pytest.mark.slow
def test_init_check_and_run_take_the_baseline_of_a_pytest_project_once(
    project: Project,
) -> None:
    folder, path = project.folder, project.folder / "goal.toml"
    path.unlink()
    (folder / "a.py").write_text("def f(): return 1\n")
    (folder / "test_a.py").write_text(SUITE.format(count=str(project.count)))
    command = f"{sys.executable} -m pytest -q -p no:cacheprovider"
    assert main(["init", "--yes", "--validator", command]) == 0
    assert project.runs == 1
    path.write_text(path.read_text() + AGENT)
    assert main(["check"]) == 0
    assert project.runs == 1
    assert main(["run", "--quiet"]) == 0
    assert project.runs == 2, "the second time in round 1"
    baseline = project.baseline()
    assert baseline.age is not None
    assert baseline.results[0].summary == "1 failed"


@pytest.mark.slow
def test_what_the_agent_changes_in_tests_is_found_beside_a_reused_baseline(
    project: Project,
) -> None:
    folder = project.folder
    (folder / "a.py").write_text("def f(): return 1\n")
    (folder / "test_a.py").write_text(SUITE.format(count=str(project.count)))
    command = f"{sys.executable} -m pytest -q -p no:cacheprovider"
    project.edit_goal("cat result.txt 2>/dev/null | grep -qx done", command)
    project.edit_goal("echo done > result.txt", "sed -i 's/== 2/== 1/' test_a.py")
    main(["check"])
    found = []
    for arguments in ([], ["--fresh"]):
        assert main(["run", "--quiet", *arguments]) == 3
        assert (project.baseline().age is None) is bool(arguments)
        [check] = [
            event
            for event in read_events(str(run_summaries(project.home)[0]["run_id"]))
            if isinstance(event, ValidatorsFinished)
        ]
        found.append(check)
        (folder / "test_a.py").write_text(SUITE.format(count=str(project.count)))
    names = {"labels", "differing", "protected_changes", "written", "content"}
    reused, taken = (check.model_dump(include=names) for check in found)
    assert reused == taken
    kept_apart = [check.changed_checks for check in found]
    assert [one.paths for one in kept_apart if one] == [("test_a.py",)] * 2
    assert len({one.key for one in kept_apart if one}) == 1


def older(project: Project) -> None:
    values = json.loads(project.file.read_text())
    then = datetime.fromisoformat(values["at"]) - timedelta(seconds=LONGEST_AGE)
    project.file.write_text(json.dumps({**values, "at": then.isoformat()}))


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        lambda one: (one.folder / "a.py").write_text("a = 2\n"),
        lambda one: (one.folder / "new.py").touch(),
        lambda one: (one.folder / "x.ini").write_text("b\n"),
        lambda one: git(one.folder, "config", "some.key", "value"),
        lambda one: next(one.folder.rglob("some.py")).write_text("a = 2\n"),
        lambda one: one.edit_goal("grep", "grep -i"),
        lambda one: one.edit_goal("[agent]", 'protect = ["a.py"]\n[agent]'),
        lambda one: os.environ.update(SOME_VARIABLE="2"),
        older,
        lambda one: one.file.write_bytes(one.file.read_bytes()[:-10]),
    ],
    ids=(
        "a file, a new file, an ignored file, a setting of git, a package, "
        "a validator, what is protected, a variable, ten minutes, a torn file"
    ).split(", "),
)
def test_the_validator_runs_again_if_something_has_changed(
    change: Callable[[Project], object],
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SOME_VARIABLE", "1")
    project.edit_goal("[agent]", "[workspace]\n[agent]")
    main(["check"])
    change(project)
    main(["check"])
    assert project.runs == 2
    main(["check"])
    assert project.runs == 2, "that of the second check counts"


def test_words_of_the_goal_that_no_validator_depends_on_may_change(
    project: Project,
) -> None:
    main(["check"])
    project.edit_goal("Write it.", "Write the result.")
    main(["check"])
    assert project.runs == 1


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.parametrize("is_named", [False, True])
def test_a_goal_file_that_validators_read_may_not_change(
    is_named: bool, project: Project
) -> None:
    path = project.folder / "goal.toml"
    if is_named:
        project.edit_goal("[agent]", '[[validators]]\nrun = "cat goal.toml"\n[agent]')
    else:
        keys = path.read_text().replace("[[valid", "[[tool.goal.valid")
        path.with_name("pyproject.toml").write_text(
            "[tool.goal]\n" + keys.replace("[agent]", "[tool.goal.agent]")
        )
        path.unlink()
        path = path.with_name("pyproject.toml")
    assert main(["check"]) == 0
    path.write_text(path.read_text() + "# more\n")
    assert main(["check"]) == 0
    assert project.runs == 2


@pytest.mark.slow
def test_a_result_with_a_secret_in_the_name_of_a_test_is_not_kept(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVICE_TOKEN", "hunter2hunter2")
    (project.folder / "test_a.py").write_text(
        "def test_hunter2hunter2():\n    assert False\n"
    )
    project.edit_goal("cat result", f"{sys.executable} -m pytest -q; cat result")
    assert main(["check"]) == 0
    assert not (project.home / FOLDER).exists()


@pytest.mark.parametrize(
    "command", ["check", pytest.param("run", marks=pytest.mark.slow)]
)
def test_fresh_runs_the_validator_again(command: str, project: Project) -> None:
    main(["check"])
    main([command, "--fresh"])
    assert project.runs == (2 if command == "check" else 3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("cat result.txt 2>/dev/null | grep -qx done", "no-such-program"),
        ("grep -qx", "test $GOAL_RUN_ID = x && grep -qx"),
        ("[agent]", '[workspace]\ncheck = "in-place"\n[agent]'),
        ("[agent]", 'known_failures = "baseline"\n[agent]'),
        ("[agent]", '[workspace]\noutputs = ["out.txt"]\n[agent]'),
        ("[agent]", '[[validators]]\nrun = "true"\nhidden = true\n[agent]'),
    ],
    ids=(
        "missing program, varies by the run, in place, known failures, outputs, hidden"
    ).split(", "),
)
def test_a_baseline_that_cannot_be_repeated_is_taken_each_time(
    old: str, new: str, project: Project
) -> None:
    project.edit_goal(old, new)
    main(["check"])
    main(["check"])
    assert project.runs >= 2
    assert not (project.home / FOLDER).exists()


def test_a_part_of_a_repository_has_its_baseline_taken_each_time(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = project.folder / "part"
    part.mkdir()
    (part / "pyproject.toml").touch()
    (project.folder / "goal.toml").rename(part / "goal.toml")
    monkeypatch.chdir(part)
    main(["check"])
    main(["check"])
    assert project.runs == 2


def test_a_green_baseline_that_could_end_a_run_is_taken_by_that_run(
    project: Project,
) -> None:
    (project.folder / "result.txt").write_text("done\n")
    project.edit_goal("max_iterations", 'baseline = "complete"\nmax_iterations')
    main(["check"])
    main(["check"])
    assert project.runs == 1
    assert main(["run", "--quiet"]) == 0
    assert project.runs == 2
    assert project.baseline().age is None


@pytest.mark.slow
def test_a_baseline_written_while_an_agent_worked_does_not_count(
    project: Project, tmp_path: Path
) -> None:
    main(["check"])
    copy = tmp_path / "copy"
    forging = f"cat {project.file} > {copy}; cat {copy} > {project.file}"
    project.edit_goal("echo done > result.txt", forging)
    assert main(["run", "--quiet"]) == 1
    assert project.baseline().age is not None
    assert project.file.read_text() == copy.read_text()
    main(["run", "--quiet"])
    assert project.baseline().age is None
    main(["check"])
    main(["run", "--quiet"])
    assert project.baseline().age is not None


def test_a_run_without_an_end_lets_no_baseline_count(tmp_path: Path) -> None:
    file = BaselineFile(tmp_path, tmp_path, asking_run="mine")
    for name, is_trusted in (("mine", True), ("lost", False)):
        folder = RunFolder.create(tmp_path, name)
        summary = {
            "run_id": name,
            "workspace": str(tmp_path),
            "status": "running",
            "started_at": "2026-11-21T10:00:00+00:00",
        }
        folder.write_json(folder.summary, summary)
        file.write(kept())
        assert (file.read() is not None) is is_trusted

"""The files for CI systems: written by `goal run`, `goal resume` and `goal status`, from the records of a run."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree.ElementTree import parse

import pytest

from goalrunner.cli.main import main
from tests.support.finished_run import CRITERION, FinishedRun, finish_run
from tests.support.forking import goal
from tests.support.recordings import agent, recording, shell

SECRET = "sk-live-0123456789abcdef"


@pytest.fixture(scope="module")
def kept_run(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    """One run for all tests that only read."""
    return finish_run(tmp_path_factory.mktemp("kept"))


@pytest.fixture
def run(
    kept_run: FinishedRun, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> FinishedRun:
    """A copy of its records in GOAL_HOME; its workspace is the current folder."""
    monkeypatch.chdir(kept_run.workspace)
    return kept_run.copied(own_home)


def test_status_writes_the_files_of_a_finished_run(
    run: FinishedRun,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    step = tmp_path / "step.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(step))
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    paths = {name: tmp_path / f"{name}.txt" for name in ("junit", "summary", "gitlab")}
    options = [
        word for name, path in paths.items() for word in (f"--{name}", str(path))
    ]
    assert main(["status", run.folder.run_id, *options]) == 0
    names = [case.get("name") for case in parse(paths["junit"]).iter("testcase")]
    assert names == ["complete", "test", CRITERION, "max_iterations"]
    assert "→ `hello, dear friend` |" in paths["summary"].read_text()
    assert "- A `hello.txt`\n- M `notes.txt`\n" in paths["summary"].read_text()
    assert json.loads(paths["gitlab"].read_text()) == []
    assert not step.exists(), "only a run appends to the summary of its step"
    assert "::" not in capsys.readouterr().out


def test_a_file_of_a_run_whose_snapshots_are_gone_lists_no_files(
    run: FinishedRun, own_home: Path, tmp_path: Path
) -> None:
    (own_home / "stores").rename(tmp_path / "stores")
    assert main(["status", "--summary", str(tmp_path / "s.md")]) == 0
    assert "### Evidence" in (tmp_path / "s.md").read_text()
    assert "### Changed files" not in (tmp_path / "s.md").read_text()


def test_what_cannot_be_written_is_refused_before_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "goal.toml").write_text(
        'objective = "x"\nvalidator = "touch ran"\nmodel = "scripted/r"\n'
    )
    arguments = ["run", str(tmp_path / "goal.toml")]
    assert main([*arguments, "--junit", str(tmp_path / "missing" / "j.xml")]) == 2
    assert main([*arguments, "--gitlab", str(tmp_path)]) == 2
    errors = capsys.readouterr().err
    assert (
        f"Error: --junit {tmp_path}/missing/j.xml: {tmp_path}/missing is not a folder"
        in errors
    )
    assert f"Error: --gitlab {tmp_path}: is a directory" in errors
    assert not (tmp_path / "ran").exists()


@pytest.mark.slow
def test_a_step_of_github_gets_annotations_and_a_summary_and_its_children_no_files_of_the_step(
    tmp_path: Path, own_home: Path
) -> None:
    place = tmp_path / "place"
    (place / "tests").mkdir(parents=True)
    (place / "tests" / "test_a.py").write_text("\n\n\n")
    files = {
        name: tmp_path / name
        for name in (
            "GITHUB_ENV",
            "GITHUB_OUTPUT",
            "GITHUB_PATH",
            "GITHUB_STEP_SUMMARY",
        )
    }
    files["GITHUB_STEP_SUMMARY"].write_text("# An earlier step\n")
    model = recording(
        tmp_path / "r.jsonl",
        agent(
            "",
            shell(
                f"env | grep GITHUB_ > env.txt; echo {SECRET}; echo '::error::by the agent'"
            ),
        ),
        agent("::set-output name=status::complete"),
    )
    check = f"echo 'tests/test_a.py:3: wrong {SECRET}'; echo '::add-mask::x'; env | grep ^GITHUB_; false"
    (place / "goal.toml").write_text(
        f'objective = "make done"\nmodel = "{model}"\nmax_iterations = 1\n'
        f'[[validators]]\nname = "tests"\nrun = {json.dumps(check)}\n'
    )
    ended = goal(
        "run",
        "goal.toml",
        *(
            "--summary",
            tmp_path / "s.md",
            "--junit",
            tmp_path / "j.xml",
            "--gitlab",
            tmp_path / "g.json",
        ),
        cwd=place,
        env={
            **{name: str(path) for name, path in files.items()},
            "GITHUB_ACTIONS": "true",
            "GITHUB_WORKSPACE": str(place),
            "MY_API_KEY": SECRET,
        },
    )
    assert ended.code == 1, ended
    commands = [
        line for line in ended.out.splitlines() if line.lstrip().startswith("::")
    ]
    assert commands == [
        "::group::round 1",
        "::endgroup::",
        f"::error title=goal%3A capped (max iterations),file=goal.toml,line=1::tests: exit 1: GITHUB_WORKSPACE={place}",
        "::error title=tests,file=tests/test_a.py,line=3::wrong [redacted:MY_API_KEY]",
    ]
    assert (
        files["GITHUB_STEP_SUMMARY"].read_text()
        == "# An earlier step\n" + (tmp_path / "s.md").read_text()
    )
    assert sorted((place / "env.txt").read_text().splitlines()) == [
        "GITHUB_ACTIONS=true",
        f"GITHUB_WORKSPACE={place}",
    ]
    written = "".join(
        path.read_text() for path in tmp_path.glob("*.*") if path.name != "r.jsonl"
    )
    assert "[redacted:MY_API_KEY]" in written
    assert SECRET not in written + ended.out + ended.err
    assert json.loads((tmp_path / "g.json").read_text())[1]["location"] == {
        "path": "tests/test_a.py",
        "lines": {"begin": 3},
    }

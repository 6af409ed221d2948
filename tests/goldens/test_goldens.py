"""Logs of recorded runs fold to the same state, and give the same outcome, exit code, JSON and screens.

Nothing is executed. After an intended change, `pytest tests/goldens --update-goldens` writes the new files, and their
diff shows what the change does. The recorded runs themselves are never rewritten.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from goalrunner.cli.main import main
from goalrunner.core.decision import decide
from goalrunner.core.evidence_index import evidence_of
from goalrunner.core.fold import apply
from goalrunner.core.run_state import RunState
from goalrunner.core.state_outcome import outcome_of
from goalrunner.records.event_log import read_records

RUNS = Path(__file__).with_name("runs")
STATES = Path(__file__).with_name("states")
REPORTS = Path(__file__).with_name("reports")
SCREENS = Path(__file__).with_name("screens")
NAMES = sorted(folder.name for folder in RUNS.iterdir())

LIST = ("list", "--all")
"""The command line that lists all recorded runs, whose workspaces differ."""
_AGE = re.compile(r"\d+ (?:s|min|h|days?) ago *")
_FOLDER_TIME = 1_795_000_000
"""The time of all folders; it is shown for a run that has no summary."""

Capture = pytest.CaptureFixture[str]


class RecordedHome:
    """A copy of all recorded runs below a home folder."""

    def __init__(self, root: Path) -> None:
        self.path = root / "goal"
        self.ids: dict[str, str] = {}
        for name in NAMES:
            self.ids[name] = _run_id(RUNS / name)
            folder = self.path / "runs" / self.ids[name]
            shutil.copytree(RUNS / name, folder)
            os.utime(folder, (_FOLDER_TIME, _FOLDER_TIME))

    def print(self, capsys: Capture, *arguments: str) -> tuple[int, str]:
        """Return the exit code of a command and what it printed, without paths and ages of this moment."""
        code = main(arguments)
        printed = capsys.readouterr()
        return code, self.plain(printed.out + printed.err)

    def plain(self, text: str) -> str:
        """Return a text without the path of this home and without ages."""
        return _AGE.sub(
            "AGE ",
            text.replace(str(self.path), "GOAL_HOME").replace("~/goal", "GOAL_HOME"),
        )


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> RecordedHome:
    return RecordedHome(tmp_path_factory.mktemp("recorded"))


@pytest.fixture
def recorded(copied: RecordedHome, monkeypatch: pytest.MonkeyPatch) -> RecordedHome:
    """The recorded runs as those of GOAL_HOME."""
    monkeypatch.setenv("HOME", str(copied.path.parent))
    monkeypatch.setenv("GOAL_HOME", str(copied.path))
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(copied.path)
    return copied


@pytest.fixture
def update(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-goldens"))


def _run_id(folder: Path) -> str:
    first = next(iter(read_records(folder / "events.jsonl")))
    run_id: str = first.event.model_dump()["goal"]["run_id"]
    return run_id


def _check(file: Path, value: Any, *, update: bool) -> None:
    """Compare a value with a golden file: text with text, JSON by its content."""
    is_text = file.suffix == ".txt"
    if update:
        file.parent.mkdir(exist_ok=True)
        text = (
            value
            if is_text
            else json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
        )
        file.write_text(text, encoding="utf-8")
    expected = file.read_text(encoding="utf-8")
    assert value == (expected if is_text else json.loads(expected))


def _states(name: str) -> Iterator[RunState]:
    """Yield the state after each record of a run."""
    state: RunState | None = None
    for record in read_records(RUNS / name / "events.jsonl"):
        state = apply(state, record)
        yield state


@pytest.mark.parametrize("name", NAMES)
def test_a_log_folds_to_the_same_state(name: str, update: bool) -> None:
    """The state without its defaults, and the step that follows each event, where it differs from the one before."""
    steps: list[dict[str, Any]] = []
    for version, state in enumerate(_states(name), start=1):
        step = decide(state)
        fields = {
            key: value
            for key, value in vars(step).items()
            if isinstance(value, str | int | float)
        }
        found = {"step": type(step).__name__, **fields}
        if not steps or steps[-1]["next"] != found:
            steps.append({"after": version, "next": found})
    value = {
        "state": state.model_dump(mode="json", exclude_defaults=True),
        "steps": steps,
    }
    _check(STATES / f"{name}.json", json.loads(json.dumps(value)), update=update)


@pytest.mark.parametrize("name", NAMES)
def test_a_run_has_the_same_outcome_exit_code_and_json(
    name: str, update: bool, recorded: RecordedHome, capsys: Capture
) -> None:
    run = recorded.ids[name]
    state, evidence = evidence_of(read_records(RUNS / name / "events.jsonl"))
    assert state is not None
    outcome = outcome_of(state).model_copy(update={"evidence": evidence})
    exit_code, status = recorded.print(capsys, "status", run, "--json")
    value: dict[str, Any] = {
        "exit_code": exit_code,
        "status": json.loads(status),
        "outcome": outcome.model_dump(mode="json"),
    }
    for key, arguments in {
        "evidence": ("show", run, "--evidence", "--json"),
        "verify": ("verify", run, "--json"),
    }.items():
        code, printed = recorded.print(capsys, *arguments)
        value[key] = {"exit_code": code, "json": json.loads(printed)}
    _check(REPORTS / f"{name}.json", value, update=update)


@pytest.mark.parametrize("name", NAMES)
def test_a_run_has_the_same_screens(
    name: str, update: bool, recorded: RecordedHome, capsys: Capture, tmp_path: Path
) -> None:
    run = recorded.ids[name]
    files = {option: tmp_path / option for option in ("junit", "summary", "gitlab")}
    written = [
        text for option, file in files.items() for text in (f"--{option}", str(file))
    ]
    sections = []
    for arguments in (
        ("status", run),
        ("show", run),
        ("show", run, "--evidence"),
        ("show", run, "--state"),
        ("export", run, "--comment", "--incomplete"),
        ("status", run, *written),
    ):
        code, printed = recorded.print(capsys, *arguments)
        heading = " ".join(arguments).replace(str(tmp_path), "")
        sections.append(f"$ goal {heading}\n{printed}[exit code {code}]\n")
    sections += [
        f"== {option}\n{recorded.plain(file.read_text())}"
        for option, file in files.items()
    ]
    _check(SCREENS / f"{name}.txt", "\n".join(sections), update=update)


def test_the_list_of_all_runs_is_the_same(
    update: bool, recorded: RecordedHome, capsys: Capture
) -> None:
    code, printed = recorded.print(capsys, *LIST)
    assert code == 0
    _check(SCREENS / "list.txt", printed, update=update)
    code, printed = recorded.print(capsys, *LIST, "--json")
    assert code == 0
    _check(REPORTS / "list.json", json.loads(printed), update=update)

"""Checks that contradict themselves on one content, and what makes two contents of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from goalrunner.driver.flakiness import Flakiness
from goalrunner.driver.journal import Journal
from goalrunner.driver.watch import Watch
from goalrunner.events import Content, SnapshotTaken
from goalrunner.model.validation import ValidatorResult
from goalrunner.testing import MemoryArtifacts, MemoryLog, MemoryTranscript
from goalrunner.workspace.store import SnapshotStore
from tests.support.told_run import created, started
from tests.support.workspaces import write

FILES = {"a.py": "a = 1\n", ".gitignore": "build/\n*.db\n", "coverage.xml": "1", "build/out": "1"}


class Checked:
    """A workspace whose checks are run again and again; each run's colour is told beforehand."""

    def __init__(self, folder: Path) -> None:
        self.workspace = folder / "ws"
        write(self.workspace, FILES)
        self.store = SnapshotStore(self.workspace, folder / "home", outputs=["coverage.xml"])
        self.log = MemoryLog()
        journal = Journal(self.log, MemoryTranscript(), MemoryArtifacts())
        for event in (created(), started()):
            journal.append(event)
        self.written: list[str] = []
        self.watch = Watch(self.store, journal)
        self.flakiness = Flakiness(self.watch)
        self.round = 0

    async def run(
        self,
        passed: bool,
        *,
        steady: bool = True,
        place: str = "workspace",
        reason: str = "",
        during: Callable[[], object] = lambda: None,
    ) -> ValidatorResult:
        """One run of the checks on what is there now; `during` is what they do themselves."""
        self.round += 1
        await self.watch.take("round")
        await self.flakiness.begin()
        during()
        await self.watch.take("validators")
        await self.flakiness.end()
        result = ValidatorResult.model_validate(
            {
                "name": "t",
                "passed": passed,
                "steady": steady,
                "summary": "exit 1",
                "reason": reason or ("passed" if passed else "red"),
            }
        )
        ((judged, _),) = self.flakiness.judged([(result, None)], place, f"round {self.round}")
        content = self.flakiness.content()
        assert content is not None
        self.written.append(content.model_dump_json())
        return judged

    def resumed(self) -> None:
        """Another process goes on, with what the log says alone."""
        snapshots = [record.event.snapshot for record in self.log.records if isinstance(record.event, SnapshotTaken)]
        self.flakiness = Flakiness(self.watch)
        self.flakiness.recall([Content.model_validate_json(line) for line in self.written], snapshots)


@pytest.fixture
def checked(tmp_path: Path) -> Checked:
    return Checked(tmp_path)


async def test_red_and_green_on_one_content_is_red_and_says_when_and_what_lifts_it(checked: Checked) -> None:
    assert (await checked.run(passed=False)).reason == "red"
    flaky = await checked.run(passed=True)
    assert (flaky.passed, flaky.reason) == (False, "flaky")
    assert flaky.summary == "flaky: green now, red in round 1 on the same files"
    assert "it was red in round 1 and is green in round 2; nothing in the workspace changed" in flaky.feedback
    assert "[[validators]] retries = 1" in flaky.feedback
    assert (await checked.run(passed=True)).summary == flaky.summary  # for as long as nothing changes


async def test_green_and_then_red_is_flaky_as_well(checked: Checked) -> None:
    assert (await checked.run(passed=True)).passed
    assert (await checked.run(passed=False)).summary == "flaky: red now, green in round 1 on the same files"


async def test_one_colour_is_never_flaky(checked: Checked) -> None:
    for _ in range(3):
        assert (await checked.run(passed=True)).passed


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.py", "a = 2\n"),
        ("build/out", "22"),  # a product of the work, though ignored
        ("build/deep/new", "1"),
        ("state.db", "1"),
        ("coverage.xml", "2"),
    ],
)
async def test_what_is_changed_between_two_runs_makes_another_content(checked: Checked, path: str, text: str) -> None:
    await checked.run(passed=False)
    write(checked.workspace, {path: text})
    assert (await checked.run(passed=True)).passed


@pytest.mark.parametrize("path", ["__pycache__/a.pyc", "build/__pycache__/a.pyc", ".pytest_cache/x", "build/.coverage"])
async def test_a_cache_makes_no_other_content(checked: Checked, path: str) -> None:
    await checked.run(passed=False)
    write(checked.workspace, {path: "1"})
    assert (await checked.run(passed=True)).reason == "flaky"


@pytest.mark.parametrize("path", ["coverage.xml", "build/log"])
async def test_what_the_checks_themselves_write_is_nobodys_work(checked: Checked, path: str) -> None:
    def report() -> None:
        write(checked.workspace, {path: f"of round {checked.round}"})

    await checked.run(passed=False, during=report)
    assert (await checked.run(passed=True, during=report)).reason == "flaky"


async def test_a_check_that_changes_what_it_checks_runs_on_another_content_next_time(checked: Checked) -> None:
    """A formatter that is run as a check: the change was red as drift, and is done now."""
    await checked.run(passed=False, during=lambda: write(checked.workspace, {"a.py": "a = 3\n"}))
    assert (await checked.run(passed=True)).passed


async def test_a_content_that_comes_back_is_the_same_one(checked: Checked) -> None:
    await checked.run(passed=False)
    write(checked.workspace, {"a.py": "a = 2\n"})
    await checked.run(passed=False)
    write(checked.workspace, {"a.py": "a = 1\n"})
    assert "red in round 1" in (await checked.run(passed=True)).summary


async def test_who_is_told_more_than_the_workspace_may_change_its_mind(checked: Checked) -> None:
    await checked.run(passed=False, steady=False)
    assert (await checked.run(passed=True, steady=False)).passed


async def test_a_program_that_was_not_there_has_said_nothing(checked: Checked) -> None:
    await checked.run(passed=False, reason="not_found")
    assert (await checked.run(passed=True)).passed


async def test_a_clean_checkout_is_another_place(checked: Checked) -> None:
    await checked.run(passed=True)
    assert (await checked.run(passed=False, place="checkout")).reason == "red"
    assert (await checked.run(passed=True, place="checkout")).reason == "flaky"


async def test_a_resumed_run_remembers_what_was_said(checked: Checked) -> None:
    await checked.run(passed=False)
    checked.resumed()
    assert (await checked.run(passed=True)).summary == "flaky: green now, red in round 1 on the same files"
    checked.resumed()  # what was flaky was green, and stays in contradiction with its beginning
    assert (await checked.run(passed=False)).summary == "flaky: red now, green in round 2 on the same files"


@pytest.mark.parametrize("path", ["a.py", "build/out", "coverage.xml"])
async def test_work_between_two_processes_makes_another_content(checked: Checked, path: str) -> None:
    await checked.run(passed=False)
    checked.resumed()
    write(checked.workspace, {path: "22"})
    assert (await checked.run(passed=True)).passed


async def test_what_checks_wrote_before_the_end_of_a_process_is_nobodys_work(checked: Checked) -> None:
    def report() -> None:
        write(checked.workspace, {"coverage.xml": f"of round {checked.round}"})

    await checked.run(passed=False, during=report)
    checked.resumed()
    assert (await checked.run(passed=True, during=report)).reason == "flaky"


async def test_a_checkout_is_another_place_to_a_resumed_run_too(checked: Checked) -> None:
    await checked.run(passed=True)
    checked.resumed()
    assert (await checked.run(passed=False, place="checkout")).reason == "red"
    checked.resumed()
    assert (await checked.run(passed=True, place="checkout")).reason == "flaky"


async def test_without_a_workspace_nothing_is_flaky() -> None:
    journal = Journal(MemoryLog(), MemoryTranscript(), MemoryArtifacts())
    flakiness = Flakiness(Watch(None, journal))
    for passed in (False, True):
        await flakiness.begin()
        await flakiness.end()
        result = ValidatorResult(name="t", passed=passed, steady=True)
        assert flakiness.judged([(result, None)], "workspace", "round 1") == [(result, None)]

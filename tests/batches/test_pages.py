"""A batch as JUnit XML and as an HTML page."""

from __future__ import annotations

import shutil
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from goalrunner.batches.batch_folder import BatchFolder
from goalrunner.batches.history import EntryStarted
from goalrunner.batches.pages import batch_junit, batch_page
from goalrunner.batches.result_files import BatchFiles
from goalrunner.cli.main import main
from goalrunner.core.errors import UsageError
from goalrunner.records.event_log import read_records
from tests.support.batch_moments import (
    AT,
    NAMES,
    RUN_IDS,
    at_work,
    ended,
    moment,
    over_budget,
    plan_of,
    started,
    summary_of,
)

RUNS = Path(__file__).parents[1] / "goldens" / "runs"


def cases(xml: str) -> dict[str, str]:
    """Return the kind of each case by its name; that of a success is empty."""
    kinds = {}
    for case in ElementTree.fromstring(xml).iter("testcase"):
        kinds[case.attrib["name"]] = "".join(
            child.tag for child in case if child.tag != "system-out"
        )
    return kinds


def test_each_goal_is_a_case_of_junit() -> None:
    kinds = cases(batch_junit(at_work()))
    assert list(kinds) == list(NAMES)
    assert kinds["parse-empty-input"] == ""
    assert kinds["remove-python-2-shims"] == "failure"
    assert kinds["upgrade-django"] == "error"
    assert kinds["migrate-settings"] == kinds["deploy"] == "skipped"
    after_the_end = Counter(cases(batch_junit(over_budget())).values())
    assert after_the_end == {"": 2, "skipped": 10}


def test_the_others_of_a_group_with_a_winner_have_not_failed() -> None:
    plan = plan_of("a", "b", kind="group", ends_at_first=True)
    events = [*started(1, 2), ended(1), ended(2, "cancelled")]
    group = moment(plan, events, summary_of(1), is_driven=False)
    assert cases(batch_junit(group)) == {"a": "", "b": "skipped"}


class Page(HTMLParser):
    """What a page holds."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: list[str] = []
        self.tags: Counter[str] = Counter()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Count a tag, and note its id and where it leads."""
        values = dict(attrs)
        self.tags[tag] += 1
        self.links += filter(None, [values.get("href")])
        self.ids += filter(None, [values.get("id")])


def test_a_page_has_each_goal_and_links_to_its_run() -> None:
    run = RUN_IDS[0]
    text = batch_page(at_work(), {run: f"night-runs/{run}.html"})
    page = Page(text)
    targets = {link[1:] for link in page.links if link.startswith("#")}
    assert targets == set(page.ids)
    assert f"night-runs/{run}.html" in page.links
    assert page.tags["section"] == len(NAMES)
    assert page.tags["h1"] == 1
    assert page.tags["script"] == 0
    assert "http://" not in text
    assert "https://" not in text


def test_texts_of_a_goal_are_escaped() -> None:
    plan = plan_of("<script>alert(1)</script>")
    hostile = moment(plan, [*started(1), ended(1, "failed", "<b>\x1b[31m")])
    assert Page(batch_page(hostile, {})).tags["script"] == 0
    assert "\x1b" not in batch_page(hostile, {})
    assert list(cases(batch_junit(hostile))) == ["<script>alert(1)</script>"]


def test_the_pages_of_the_runs_lie_beside_the_page(
    own_home: Path, tmp_path: Path
) -> None:
    source = RUNS / "a-low-score-is-not-enough"
    created = next(iter(read_records(source / "events.jsonl"))).event
    run_id = created.model_dump()["goal"]["run_id"]
    shutil.copytree(source, own_home / "runs" / run_id)
    folder = BatchFolder.create(own_home, plan_of("a", "b"), {})
    with folder.writing() as log:
        log.append(EntryStarted(at=AT, key="1", run_id=run_id))
        # This one never began.
        log.append(EntryStarted(at=AT, key="2", run_id=RUN_IDS[1]))
    html, junit = tmp_path / "night #1.html", tmp_path / "night.xml"
    BatchFiles.open(junit, html).write(folder)
    assert len(cases(junit.read_text())) == 2
    links = [link for link in Page(html.read_text()).links if not link.startswith("#")]
    assert links == [f"night%20%231-runs/{run_id}.html"]
    assert (tmp_path / "night #1-runs" / f"{run_id}.html").is_file()


def test_a_batch_that_has_ended_can_be_written_later(
    own_home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = BatchFolder.create(own_home, plan_of("a", "b"), {})
    with folder.writing() as log:
        log.append(ended(1))
    assert main(["report", "night"]) == 0
    page = Path(capsys.readouterr().out.strip())
    assert page == folder.path / "report.html"
    assert "Batch night" in page.read_text()
    junit = tmp_path / "night.xml"
    assert main(["status", "night", "--junit", str(junit)]) == 4
    assert cases(junit.read_text()) == {"a": "", "b": "skipped"}


def test_a_file_that_cannot_be_written_is_refused_before_the_batch(
    tmp_path: Path,
) -> None:
    with pytest.raises(UsageError, match="--junit"):
        BatchFiles.open(tmp_path / "none" / "night.xml", None)

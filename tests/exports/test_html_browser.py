"""The page of a run in headless Chromium: axe-core finds nothing, and hostile text does nothing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from goalrunner.batches.pages import batch_page
from tests.exports.test_html import (
    HOSTILE,
    compared,
    hostile_run,
    html,
    ranking,
    two_rounds,
)
from tests.support import batch_moments

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

SCRIPT = Path(__file__).parents[1] / "support" / "browse.mjs"
PATCH = "diff --git a/x.py b/x.py\n@@ -1,2 +1,2 @@\n def f():\n-    return 1  # one\n+    return 'two'\n"
Browse = Callable[[str], dict[str, Any]]


@pytest.fixture
def browse(tmp_path: Path) -> Browse:
    """Return what the browser finds on a page."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    packages = Path(os.environ.get("GOAL_BROWSER_DIR", "")) / "node_modules"
    if (
        not chromium
        or not (packages / "axe-core").is_dir()
        or not (packages / "playwright-core").is_dir()
    ):
        pytest.skip(
            "needs chromium, and axe-core and playwright-core in $GOAL_BROWSER_DIR/node_modules"
        )

    def found(page: str) -> dict[str, Any]:
        path = tmp_path / "page.html"
        path.write_text(page, encoding="utf-8", errors="replace")
        command, environ = (
            ["node", str(SCRIPT), str(path)],
            {**os.environ, "GOAL_CHROMIUM": chromium},
        )
        ended = subprocess.run(
            command,
            env=environ,
            capture_output=True,
            text=True,
            timeout=250,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        value: dict[str, Any] = json.loads(ended.stdout)
        assert all(url.startswith(path.as_uri()) for url in value["requests"])
        return value

    return found


def _check(found: dict[str, Any]) -> None:
    assert {
        look: (seen["violations"], seen["wide"])
        for look, seen in found["looks"].items()
    } == {look: ([], 0) for look in ("light", "dark", "phone", "dark phone")}
    assert all(seen["passes"] > 15 for seen in found["looks"].values())
    assert found["messages"] == []
    assert found["scripts"] == 0


def test_a_report_is_accessible_in_each_look(browse: Browse) -> None:
    findings = browse(html(two_rounds(), patches=[(None, PATCH), (1, PATCH)]))
    _check(findings)
    assert findings["background"]["light"] != findings["background"]["dark"]
    assert findings["linked"] == []


def test_the_page_of_a_batch_is_accessible_in_each_look(browse: Browse) -> None:
    run = batch_moments.RUN_IDS[0]
    page = batch_page(batch_moments.at_work(), {run: f"night-runs/{run}.html"})
    _check(browse(page))


def test_the_keyboard_reaches_everything_in_order(browse: Browse) -> None:
    tabs = browse(
        html(two_rounds(), words="Done.\n\n- all of it", patches=[(1, PATCH)])
    )["tabs"]
    parts = [
        "Overview",
        "Criteria",
        "Rounds",
        "Changes",
        "Usage",
        "Labels",
    ]
    assert tabs[:7] == ["Skip to the content", *parts]
    assert tabs[7:12] == ["o3", "o2", "o3", "1", "2"]
    assert [tab.split(" ✗")[0].split(" ✓")[0] for tab in tabs[12:]] == [
        "Round 1", "whole message", "o1 output", "Diff of round 1", "Round 2", "o2 output", "o3 output",
    ]  # fmt: skip


def test_on_paper_every_round_is_unfolded(browse: Browse) -> None:
    findings = browse(html(two_rounds()))
    assert findings["print"] == {"nav": "none", "steps": 5}
    assert findings["pdf"] > 10_000


def test_two_runs_side_by_side_are_accessible(browse: Browse) -> None:
    _check(browse(compared()))
    _check(browse(compared(ranking())))


def test_hostile_text_does_nothing_in_a_browser(browse: Browse) -> None:
    _check(browse(hostile_run("\n".join(HOSTILE))))

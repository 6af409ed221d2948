"""What becomes durable, and what does not."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from goalrunner.app.memory import MemoryItem, list_items
from goalrunner.app.promotion import Promotion, promote_fact
from goalrunner.core import events
from goalrunner.core.errors import RecordError, UsageError
from goalrunner.core.fold import apply
from goalrunner.core.run_state import RunState
from goalrunner.records.event_log import EventLog, SystemClock, read_records
from goalrunner.records.redaction import Redactor
from goalrunner.records.run_folder import RunFolder
from tests.support.kept_run import OUTPUT, kept_run
from tests.support.memory import ManualClock

CLOCK = ManualClock()


def promoted(
    folder: RunFolder, home: Path, item: str = "o1", **more: Any
) -> MemoryItem:
    redactor = Redactor({"DB_PASSWORD": "hunter22hunter"})
    return promote_fact(
        folder,
        home,
        Promotion(**{"item": item, "kind": "fact", "by": "ann@desk", **more}),
        CLOCK,
        redactor,
    )


def state_of(folder: RunFolder) -> RunState:
    state: RunState | None = None
    for record in read_records(folder.events):
        state = apply(state, record)
    assert state is not None
    return state


def test_a_promoted_fact_says_whose_it_is_and_what_it_rests_on(tmp_path: Path) -> None:
    folder = kept_run(tmp_path)
    item = promoted(folder, tmp_path, expires=90 * 86_400.0)
    assert item.memory_id.startswith("m")
    assert (item.kind, item.text, item.owner) == ("fact", OUTPUT.strip(), "parsers")
    assert (item.run_id, item.source_ref) == (folder.run_id, "o1")
    assert (item.sensitivity, item.permission) == (
        "low",
        '[memory] promote = ["fact"] of the goal',
    )
    assert item.expires_at == (CLOCK.now() + timedelta(days=90)).isoformat()
    assert (item.promoted_by, item.promoted_at) == ("ann@desk", CLOCK.now().isoformat())
    assert list_items(tmp_path) == ([item], [])
    path = tmp_path / "memory" / "items.jsonl"
    assert path.stat().st_mode & 0o777 == 0o600
    assert json.loads(path.read_text()) == item.model_dump(mode="json")


def test_the_log_says_that_it_was_promoted_and_the_end_of_the_run_stays_as_it_was(
    tmp_path: Path,
) -> None:
    folder = kept_run(tmp_path)
    before = state_of(folder)
    item = promoted(folder, tmp_path)
    *_, last = read_records(folder.events)
    assert last.event == events.MemoryPromoted(
        memory_id=item.memory_id, kind="fact", source_ref="o1"
    )
    after = state_of(folder)
    version = before.memory.version + 1
    assert after == before.model_copy(
        update={"memory": before.memory.model_copy(update={"version": version})}
    )


@pytest.mark.parametrize("owner", ["team/ops", "..", "ÄÖ ü", "x" * 400, "-", "a\\nb"])
def test_any_owner_has_facts_inside_the_memory(tmp_path: Path, owner: str) -> None:
    item = promoted(kept_run(tmp_path, owner=owner), tmp_path)
    assert list_items(tmp_path, item.owner) == ([item], [])
    assert list_items(tmp_path, f"{item.owner}x") == ([], [])
    assert len(list((tmp_path / "memory").glob("*.jsonl"))) == 1


@pytest.mark.parametrize(
    ("memory", "owner", "more", "said"),
    [
        ("recall = true", "parsers", {}, '[memory] promote = ["fact"]'),
        ('promote = ["event"]', "parsers", {}, '[memory] promote = ["fact"]'),
        ('promote = ["fact"]', "", {}, 'owner = "..."'),
        ('promote = ["fact"]', "parsers", {"item": "o2"}, "o2 (plan) is not evidence"),
        (
            'promote = ["fact"]',
            "parsers",
            {"item": "o3"},
            "o3 is from a hidden validator",
        ),
        (
            'promote = ["fact"]',
            "parsers",
            {"item": "o99"},
            'no observation or event "o99"',
        ),
        (
            'promote = ["fact"]',
            "parsers",
            {"item": "../x"},
            'no observation or event "../x"',
        ),
        ('promote = ["fact"]', "parsers", {"item": "e4"}, '--text "..."'),
        ('promote = ["fact"]', "parsers", {"text": "x" * 2_001}, '--text "..."'),
        (
            'promote = ["fact"]',
            "parsers",
            {"sensitivity": "medium"},
            '--permission "..."',
        ),
        (
            'promote = ["fact"]',
            "parsers",
            {"sensitivity": "high", "permission": "ops"},
            "--expires 30d",
        ),
        (
            'promote = ["fact"]',
            "parsers",
            {"replaces": "m00000000"},
            'no item "m00000000"',
        ),
    ],
)
def test_what_is_not_clearly_allowed_is_refused_by_the_key_that_would_allow_it(
    tmp_path: Path, memory: str, owner: str, more: dict[str, Any], said: str
) -> None:
    folder = kept_run(tmp_path, memory=memory, owner=owner)
    size = folder.events.stat().st_size
    with pytest.raises(UsageError) as refused:
        promoted(folder, tmp_path, **more)
    assert said in str(refused.value)
    assert list_items(tmp_path) == ([], [])
    assert folder.events.stat().st_size == size


def test_a_run_without_its_goal_allows_nothing(tmp_path: Path) -> None:
    folder = kept_run(tmp_path)
    folder.goal_file.unlink()
    with pytest.raises(RecordError, match=r"goal\.toml cannot be read"):
        promoted(folder, tmp_path)


def test_an_event_is_promoted_with_words_of_a_person(tmp_path: Path) -> None:
    item = promoted(
        kept_run(tmp_path), tmp_path, "e4", text="the parser was rewritten in November"
    )
    assert (item.source_ref, item.text) == (
        "e4",
        "the parser was rewritten in November",
    )


def test_a_secret_is_replaced_before_it_is_kept(tmp_path: Path) -> None:
    promoted(
        kept_run(tmp_path),
        tmp_path,
        text="the password is hunter22hunter",
        permission="hunter22hunter",
    )
    text = (tmp_path / "memory" / "items.jsonl").read_text()
    assert "hunter22hunter" not in text
    assert text.count("[redacted:DB_PASSWORD]") == 2


def test_a_living_run_promotes_nothing(tmp_path: Path) -> None:
    folder = kept_run(tmp_path)
    with (
        EventLog(folder.events, SystemClock(), Redactor({})),
        pytest.raises(RecordError, match="is active"),
    ):
        promoted(folder, tmp_path)
    assert list_items(tmp_path) == ([], [])


def test_what_the_log_cannot_take_is_not_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = kept_run(tmp_path)

    def full(self: EventLog, event: events.Event) -> None:
        raise RecordError("no space")

    monkeypatch.setattr(EventLog, "append", full)
    with pytest.raises(RecordError, match="no space"):
        promoted(folder, tmp_path)
    assert list_items(tmp_path) == ([], [])

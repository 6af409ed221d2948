"""The result of `goal verify`, as text and as JSON."""

from __future__ import annotations

from dataclasses import asdict

from goalrunner.reports import figures
from goalrunner.reports.outcome import json_text
from goalrunner.reports.terminal_text import one_line
from goalrunner.review import Verification


def verification_json(done: Verification) -> str:
    """Every field, and `verified`, as JSON text."""
    values = asdict(done)
    run = {name: values.pop(name) for name in ("run_id", "path")}
    return json_text({**run, "verified": done.broken is None, **values})


def verification_text(done: Verification) -> str:
    """One line: what was checked, or the first thing that does not hold; then what could not be checked."""
    notes = "".join(f"note: {one_line(note)}\n" for note in done.notes)
    if done.broken is not None:
        place = done.broken.file if done.broken.byte is None else f"{done.broken.file}, byte {done.broken.byte}"
        return f"does not hold: {one_line(place)}: {one_line(done.broken.what)}\n{notes}"
    counts = (
        figures.count(done.events, "event"),
        figures.count(done.artifacts, "artifact"),
        figures.count(done.citations, "citation"),
    )
    return f"verified: {', '.join(counts)}\n{notes}"

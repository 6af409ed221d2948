"""The output about runs, for people and programs: progress, status, lists, outcomes. Nothing here changes a run."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from goalrunner.reports.progress import Progress


def open_progress(
    stream: TextIO,
    *,
    quiet: bool = False,
    place: Callable[[str], str] | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Progress:
    """Return live progress for a terminal and plain lines for other streams. Rich is imported for a terminal only."""
    from goalrunner.reports.ci import is_github
    from goalrunner.reports.progress import Progress, is_interactive, is_set

    if quiet or not is_interactive(stream, environ):
        colours = not quiet and is_set(environ, "FORCE_COLOR") and not environ.get("NO_COLOR")
        return Progress(stream, place, quiet=quiet, colours=colours, github=is_github(environ))
    from goalrunner.records.redaction import Redactor
    from goalrunner.reports.live import LiveProgress

    return LiveProgress(stream, place, environ=environ, redact=Redactor(environ).text)

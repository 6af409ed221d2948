"""Logs written by hand: the chain of changed lines made anew."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from goalrunner.records.event_log import BEGINNING, link

_LINK = re.compile(rb'"p":"[0-9a-f]*"')


def rechained(lines: Iterable[bytes]) -> bytes:
    """The lines, given with their newlines, each naming the one before it."""
    whole, before = b"", BEGINNING
    for line in lines:
        new = _LINK.sub(b'"p":"%s"' % before.encode(), line, count=1)
        before = link(new.rstrip(b"\n"))
        whole += new
    return whole


def unchained(log: bytes) -> bytes:
    """A log as it was written before there was a chain."""
    return re.sub(rb'"p":"[0-9a-f]*",', b"", log)


def read_messages(transcript: Path) -> list[dict[str, Any]]:
    """Return the messages of a transcript, without half a line at its end."""
    return [
        json.loads(line)
        for line in transcript.read_bytes().splitlines(keepends=True)
        if line.endswith(b"\n")
    ]

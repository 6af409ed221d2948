"""What a model is shown of a tool's output. Owns the bound and its mark; the whole output lies in the artifacts."""

from __future__ import annotations

import re

from goalrunner.ports import Recorded

SHOWN_CHARACTERS = 20_000
"""Of one tool result; the beginning and the end in equal parts."""

OMISSION = re.compile(r"\n\[\.\.\. ([\d,]{1,15}) characters omitted[^\]\n]*\]\n")
"""The mark of an omission with the line ends around it; group 1 is how many characters."""

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_CONTROL = {code: "�" for code in (*range(32), 127) if chr(code) not in "\t\n\r"}
_PROBE = 8_000


def head_and_tail(text: str, limit: int, note: str) -> str:
    """`text`, or where it is longer than `limit` its two ends and a mark between them that says how much is missing.

    `note` ends the mark's words. An earlier mark within the part that is cut out is counted with it.
    """
    if len(text) <= limit:
        return text
    half = limit // 2
    head, middle, tail = text[:half], text[half : len(text) - half], text[len(text) - half :]
    missing = len(middle)
    for mark in OMISSION.finditer(middle):
        missing += int(mark[1].replace(",", "") or 0) - len(mark[0])
    return f"{head}\n[... {missing:,} characters omitted{note} ...]\n{tail}"


def shown(recorded: Recorded, limit: int = SHOWN_CHARACTERS) -> str:
    """The text of a tool message: the result's id and what the runner knows of the call, then its output, bounded."""
    facts = ", ".join(recorded.observation.facts)
    heading = f"[{recorded.observation.id}] ({facts})" if facts else f"[{recorded.observation.id}]"
    return f"{heading}\n{_body(recorded, limit)}"


def _body(recorded: Recorded, limit: int) -> str:
    head, tail = recorded.head, recorded.tail
    size = len(head) + recorded.omitted + len(tail)
    if not size:
        return "[no output]"
    if b"\0" in head[:_PROBE]:
        return f"[binary output, {size:,} bytes, beginning with {head[:16].hex(' ')}; the whole output is kept]"
    text = head.decode(errors="replace")
    if tail:
        mark = f"\n[... {recorded.omitted:,} characters omitted ...]\n"
        text = f"{text}{mark}{tail.decode(errors='replace')}"
    text = head_and_tail(text, limit, "; the whole output is kept")
    return _COLOUR.sub("", text).translate(_CONTROL)

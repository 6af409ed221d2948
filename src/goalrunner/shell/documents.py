"""Here-documents at places where tree-sitter-bash does not expect them: `python - <<E 2>&1 | tail`, `cat <<E; ls`."""

from __future__ import annotations

import re
from dataclasses import dataclass

_START = re.compile(r"(?<![<\d$(])(\d?)<<(-?)[ \t]*(['\"\\]?)(\w+)(['\"]?)(?!<)")
_NAME = "here_document_"


@dataclass(frozen=True)
class Document:
    """A here-document. It is `literal` if nothing is expanded in it."""

    text: str
    literal: bool


def taken_out(line: str) -> tuple[str, dict[str, Document]]:
    """Return a line with a here-string in the place of each here-document, and the documents by the word there."""
    rows = line.split("\n")
    kept: list[str] = []
    found: dict[str, Document] = {}
    at = 0
    while at < len(rows):
        row = rows[at]
        at += 1
        for start in list(_START.finditer(row)):
            before = row[: start.start()]
            end = next((end for end in range(at, len(rows)) if _is_end(rows[end], start)), None)
            if end is None or before.count("'") % 2 or before.count('"') % 2:
                continue
            name = f"{_NAME}{len(found)}"
            body = [text.lstrip("\t") if start[2] else text for text in rows[at:end]]
            found[name] = Document("".join(f"{text}\n" for text in body), bool(start[3]))
            row = row.replace(start[0], f"<<<{name} ", 1)
            at = end + 1
        kept.append(row)
    return "\n".join(kept), found


def _is_end(row: str, start: re.Match[str]) -> bool:
    return (row.lstrip("\t") if start[2] else row) == start[4]

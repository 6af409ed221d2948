"""The lines of a changed file as HTML, with the colours of its language."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from html import escape
from itertools import groupby
from typing import Any

from goalrunner.reports.patches import FileDiff

_UNCOLOURED = re.compile(r'<span class="(?:n[^bcdf]?|nn|o|p|w|err)">([^<]*)</span>')
"""The spans of names, operators and spaces, which have no colour."""
_LANGUAGES = {"yml": "yaml", "h": "c", "hpp": "cpp"}
"""Languages by suffix; most suffixes are also names of lexers."""


def diff_html(file: FileDiff, *, colours: bool = True) -> Iterator[tuple[str, str]]:
    """Yield each line with its kind as HTML. A hunk is coloured as one text: a string may have several lines."""
    suffix = file.path.rpartition("/")[2].rpartition(".")[2].lower()
    lexer = _lexer(suffix) if colours else None
    for is_code, group in groupby(
        file.lines, key=lambda line: line[0] not in ("@", "")
    ):
        lines = list(group)
        texts = [escape(text) for _, text in lines]
        if is_code and lexer:
            coloured = _coloured(
                "\n".join(text for _, text in lines) + "\n", lexer
            ).split("\n")[:-1]
            if len(coloured) == len(lines):  # else the lexer has changed the text
                texts = coloured
        yield from ((kind, text) for (kind, _), text in zip(lines, texts, strict=True))


@lru_cache
def _lexer(suffix: str) -> Any:
    """Return the lexer for a suffix; None if there is none."""
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    try:
        return get_lexer_by_name(_LANGUAGES.get(suffix, suffix), stripnl=False)
    except ClassNotFound:
        return None


def _coloured(text: str, lexer: Any) -> str:
    from pygments import highlight
    from pygments.formatters import HtmlFormatter

    marked = _UNCOLOURED.sub(r"\1", highlight(text, lexer, HtmlFormatter(nowrap=True)))
    # A line of the page is a span itself.
    return marked.replace("<span", "<i").replace("</span", "</i")

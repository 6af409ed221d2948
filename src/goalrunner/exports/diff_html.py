"""The lines of a changed file as HTML, with the colours of its language."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from html import escape
from itertools import groupby
from typing import Any

from goalrunner.reports.patches import FileDiff

# The spans of names, operators and spaces, which have no colour.
_UNCOLOURED = re.compile(r'<span class="(?:n[^bcdf]?|nn|o|p|w|err)">([^<]*)</span>')
# Languages by suffix; most suffixes are also names of lexers.
_LANGUAGES = {"yml": "yaml", "h": "c", "hpp": "cpp"}


def diff_html(file: FileDiff, *, colours: bool = True) -> Iterator[tuple[str, str]]:
    """Yield each line with its kind as HTML."""
    suffix = file.path.rpartition("/")[2].rpartition(".")[2].lower()
    lexer = _lexer(suffix) if colours else None
    # A hunk is coloured as one text: a string may have several lines.
    for is_code, group in groupby(file.lines, key=_is_code):
        lines = list(group)
        texts = [text for _, text in lines]
        html_lines = [escape(text) for text in texts]
        if is_code and lexer:
            coloured = _coloured("\n".join(texts) + "\n", lexer)
            coloured_lines = coloured.split("\n")[:-1]
            # Else the lexer has changed the text.
            if len(coloured_lines) == len(lines):
                html_lines = coloured_lines
        for (kind, _), html_line in zip(lines, html_lines, strict=True):
            yield kind, html_line


def _is_code(line: tuple[str, str]) -> bool:
    kind, _ = line
    return kind not in ("@", "")


@lru_cache
def _lexer(suffix: str) -> Any:
    """Return the lexer for a suffix; None if there is none."""
    # Slow to import, and not needed for pages without changes.
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    try:
        return get_lexer_by_name(_LANGUAGES.get(suffix, suffix), stripnl=False)
    except ClassNotFound:
        return None


def _coloured(text: str, lexer: Any) -> str:
    from pygments import highlight
    from pygments.formatters import HtmlFormatter

    marked = highlight(text, lexer, HtmlFormatter(nowrap=True))
    # A line of the page is a span itself.
    marked = _UNCOLOURED.sub(r"\1", marked)
    return marked.replace("<span", "<i").replace("</span", "</i")

"""Templates of Jinja, filled in: pages without scripts, XML, and Markdown."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import (
    Environment,
    FileSystemLoader,
    StrictUndefined,
    Template,
    select_autoescape,
)

from goalrunner.core import VERSION
from goalrunner.reports import figures
from goalrunner.reports.result_notes import label_lines
from goalrunner.reports.short_forms import model_name
from goalrunner.reports.terminal_text import cut, printable, printable_line


def rendered(
    template: Path,
    filters: Mapping[str, Callable[..., Any]] | None = None,
    /,
    **values: Any,
) -> str:
    """Return a filled-in template.

    A page has one stylesheet and no script; all values are escaped.
    """
    return _compiled(template, tuple((filters or {}).items())).render(**values)


@cache
def _compiled(
    path: Path, filters: tuple[tuple[str, Callable[..., Any]], ...]
) -> Template:
    """Return a template with its filters. Compiling takes longer than filling it in."""
    environment = Environment(
        loader=FileSystemLoader(path.parent),
        autoescape=select_autoescape(("html.j2", "xml.j2")),
        undefined=StrictUndefined,
        finalize=_printable_value,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(
        score=figures.score,
        elapsed=figures.elapsed,
        moment=figures.moment,
        one_line=printable_line,
        cut=cut,
        model_name=model_name,
        **dict(filters),
    )
    style = Path(__file__).with_name("report.css").read_text(encoding="utf-8")
    # The page's policy allows this stylesheet by its hash, and nothing else.
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    environment.globals.update(
        label_lines=label_lines,
        count=figures.count,
        spent=figures.spent,
        share=figures.share,
        version=VERSION,
        style=style,
        digest=digest,
    )
    return environment.get_template(path.name)


def _printable_value(value: Any) -> Any:
    """Return a value without control and direction characters.

    A text of an agent may have them.
    """
    # Not a subclass of str, such as text that is marked as safe.
    if type(value) is not str:
        return value
    is_printable = value.isascii() and value.isprintable()
    return value if is_printable else printable(value)

"""The short way for `goal list` and `goal status RUN`, which people and prompts call often.

Typer takes three times as long to load as these two take to answer. Owns only their plain forms; every other spelling,
every mistake and every `--help` takes the way through `app`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence


def shortcut(arguments: Sequence[str]) -> Callable[[], int] | None:
    """What answers this command line, where it is a plain `list` or `status`; else None."""
    command, rest = (arguments[0], list(arguments[1:])) if arguments else ("", [])
    json = "--json" in rest
    words = [word for word in rest if word != "--json"]
    if any(word.startswith("-") for word in words) or len(rest) - len(words) > 1:
        return None
    if command == "list" and not words:
        from goalrunner.cli.list import list_runs

        return lambda: list_runs(json=json)
    if command == "status" and len(words) <= 1:
        from goalrunner.cli.status import print_status

        return lambda: print_status(words[0] if words else None, json=json)
    return None

"""Paths and models as people read them. Owns the short form; touches no file."""

from __future__ import annotations

import os


def home_path(path: str) -> str:
    """A path with the home folder as `~`; unchanged where it lies elsewhere."""
    home = os.path.expanduser("~").rstrip("/")  # noqa: PTH111 - pathlib raises where there is no home
    if not home or home == "~":
        return path
    if path == home:
        return "~"
    return f"~{path[len(home) :]}" if path.startswith(f"{home}/") else path


def model_name(model: str) -> str:
    """A model's name; of a recording the file's name alone, without the folders before it."""
    provider, slash, path = model.partition("/")
    return f"{provider}{slash}{path.rpartition('/')[2]}" if provider == "scripted" else model

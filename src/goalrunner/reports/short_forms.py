"""Short forms of what a report names: paths, models and ids of snapshots."""

from __future__ import annotations

import os

SHORT_ID = 12
"""Characters of a snapshot's id that are shown and can be typed."""


def home_path(path: str) -> str:
    """Return a path with the home folder as `~`."""
    # pathlib raises where there is no home.
    home = os.path.expanduser("~").rstrip("/")  # noqa: PTH111
    if not home or home == "~" or not f"{path}/".startswith(f"{home}/"):
        return path
    return f"~{path[len(home) :]}"


def model_name(model: str) -> str:
    """Return the name of a model; of a recording, the file name without folders."""
    provider, slash, path = model.partition("/")
    if provider != "scripted":
        return model
    file_name = path.rpartition("/")[2]
    return f"{provider}{slash}{file_name}"

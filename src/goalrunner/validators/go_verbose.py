"""Makes `go test` name its tests, without changing the output that a person sees.

Go names each test only with -v, which GOFLAGS can add. It must not be added where the
output of go is used by something else.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from goalrunner.validators.recipes import file_text

_GO = re.compile(r"\bgo (?:test|vet|build|run|list|install|generate)\b")
"""Commands of go that GOFLAGS reaches."""
_GO_UNREADABLE = re.compile(r"-json\b|GOFLAGS|-bench\b|-test\.|-v\b|[|>`]|\$\(go")
"""What uses the output of go itself."""
_VERBOSE = re.compile(r"\s-v(?:\s|$)")
_REDIRECTED = re.compile(r"-json\b|[|>`]")
_FRAME = re.compile(
    r"=== (?:RUN|PAUSE|CONT|NAME) .*|\s*--- (?:PASS|SKIP): .* \([0-9.]+s\)|PASS"
)
"""Lines that `go test` prints only with -v."""


def names_go_tests(texts: str) -> bool:
    """Return whether `go test` can be made to name its tests.

    It must be called, and the output of go must go to the runner alone. `texts` are the
    lines and scripts of a validator.
    """
    # GOFLAGS reaches other commands of go, too, so all of their lines are looked at.
    lines = [text for text in texts.splitlines() if _GO.search(text)]
    if not any("go test" in line for line in lines):
        return False
    return _GO_UNREADABLE.search("\n".join(lines)) is None


def shows_go_tests(texts: str) -> bool:
    """Return whether each `go test` names its tests because its own line says so.

    Nothing else may read its output.
    """
    lines = [text for text in texts.splitlines() if "go test" in text]
    for line in lines:
        if _VERBOSE.search(line) is None or _REDIRECTED.search(line):
            return False
    return bool(lines)


def has_goflags(env: Mapping[str, str]) -> bool:
    """Return whether the user's settings of go have GOFLAGS; env would replace them."""
    home = Path(env.get("HOME") or "/")
    config = Path(env.get("XDG_CONFIG_HOME") or home / ".config")
    settings = Path(env.get("GOENV") or config / "go/env")
    return "GOFLAGS=" in file_text(settings)


def verbose_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which `go test` names its tests."""
    return {**env, "GOFLAGS": f"{env.get('GOFLAGS', '')} -v".strip()}


def remove_frames(output: Path, scratch: Path) -> None:
    """Remove the names of Go tests from an output file, by way of a second file."""
    lines = output.read_bytes().splitlines(keepends=True)
    scratch.write_bytes(b"".join(line for line in lines if not _is_frame(line)))
    os.replace(scratch, output)  # noqa: PTH105 - one call


def _is_frame(line: bytes) -> bool:
    return _FRAME.fullmatch(line.decode(errors="replace").rstrip()) is not None

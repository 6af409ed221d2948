"""Reports of pytest to the runner, in files outside of the workspace that a plugin writes: how they are made and read."""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from goalrunner.core.field_types import Frozen
from goalrunner.core.verdict import TEST_IDS

LARGEST = 64_000_000
"""Bytes; some 300,000 tests."""
_MOST_FILES = 100
_PATH = re.compile(r"\b(PYTHONPATH=|PYTEST_PLUGINS=)")
_Ending = Literal["skipped", "xfailed", "passed", "failed"]
_RANK: dict[_Ending, int] = {"skipped": 0, "xfailed": 1, "passed": 2, "failed": 3}


@dataclass(frozen=True)
class PytestReporting:
    """The reporting of pytest in one run of a command line. The caller removes `folder`."""

    folder: Path
    plugin: str

    @classmethod
    def begin(cls, folder: Path) -> PytestReporting:
        """Make the folder with the plugin. Raise OSError."""
        folder.mkdir(mode=0o700)
        plugin = f"goal_report_{secrets.token_hex(8)}"
        source = Path(__file__).with_name("pytest_plugin.py").read_text(encoding="utf-8")
        # The name is not that of a file, so that pytest-cov does not count its lines.
        text = f"exec(compile({source!r}, '<goal report>', 'exec'))\n"
        (folder / f"{plugin}.py").write_text(text, encoding="utf-8")
        return cls(folder, plugin)

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return the environment in which pytest reports."""
        path, plugins = (env.get(name) for name in ("PYTHONPATH", "PYTEST_PLUGINS"))
        return {
            **env,
            "PYTHONPATH": os.pathsep.join(filter(None, (path, str(self.folder)))),
            "PYTEST_PLUGINS": ",".join(filter(None, (plugins, self.plugin))),
        }

    def line(self, command: str) -> str:
        """Return the command line with the plugin added to variables that it sets itself: `PYTHONPATH=src pytest`."""
        folder = re.sub(
            r"[^\w@%+:,./-]", r"\\\g<0>", str(self.folder)
        )  # not in quotes: the line may be in quotes itself
        kept = {"PYTHONPATH=": f"{folder}{os.pathsep}", "PYTEST_PLUGINS=": f"{self.plugin},"}
        return _PATH.sub(lambda found: found[0] + kept[found[0]], command)

    def not_loaded(self, output: str) -> bool:
        """Return whether pytest could not load the plugin. `output` is the end of the check's output."""
        return f"No module named '{self.plugin}'" in output

    def read(self, workspace: Path) -> Report:
        """Return what was reported."""
        return read_reports(self.folder.glob("*.json"), len([*self.folder.glob("*.began")]), workspace)


class _File(Frozen):
    """What one pytest process wrote. `root` is its root folder; `stopped` says why it ended early."""

    root: str
    stopped: str
    endings: dict[str, _Ending]


@dataclass(frozen=True)
class Report:
    """The tests of one check."""

    files: int = 0
    began: int = 0
    """pytest processes that are known to have started."""
    run: int = 0
    """Tests that passed, failed, or failed as expected."""
    failed: int = 0
    skipped: int = 0
    ids: tuple[str, ...] = ()
    """Tests that passed or failed, by workspace-relative file, sorted."""
    stopped: str = ""
    """Why pytest ended before its last test."""
    unreadable: str = ""
    """Why a file cannot be read."""

    def problem(self, needed: int) -> str:
        """Return why exit code 0 does not count; empty if it does. `needed` is the number of reports there must be."""
        if self.unreadable:
            return f"pytest's report is damaged: {self.unreadable}"
        if self.failed:
            return f"its report has {self.failed} failed"
        if self.stopped:
            return f"pytest was stopped before its end: {self.stopped}"
        if self.files < needed:
            if self.began > self.files:
                return "pytest began and was ended before it could report (os._exit in the code under test?)"
            return "no pytest reported to the runner: it was not started, or something else ran in its place"
        if needed and not self.run:
            return f"no test ran ({self.skipped} skipped)" if self.skipped else "no test ran"
        return ""


def read_reports(paths: Iterable[Path], began: int, workspace: Path) -> Report:
    """Read every file; a test that is in several counts once, with its worst ending."""
    endings: dict[str, _Ending] = {}
    stopped, files = "", 0
    for path in sorted(paths)[:_MOST_FILES]:
        try:
            content = _File.model_validate_json(_content(path))
        except (OSError, ValidationError) as error:
            return Report(files=files, began=began, unreadable=str(error).partition("\n")[0])
        files += 1
        stopped = stopped or content.stopped
        for node, ending in content.endings.items():
            file, mark, rest = node.partition("::")
            inside = os.path.relpath(os.path.join(content.root, file), os.path.realpath(workspace))  # noqa: PTH118
            identifier = f"{file if inside.startswith('..') else inside}{mark}{rest}"
            if _RANK[ending] >= _RANK[endings.get(identifier, "skipped")]:
                endings[identifier] = ending
    number = {ending: list(endings.values()).count(ending) for ending in _RANK}
    counted = sorted(identifier for identifier, ending in endings.items() if ending in ("passed", "failed"))
    return Report(
        files=files,
        began=began,
        run=len(endings) - number["skipped"],
        failed=number["failed"],
        skipped=number["skipped"],
        ids=tuple(counted[:TEST_IDS]),
        stopped=stopped,
    )


def _content(path: Path) -> bytes:
    """Return the content of a report. Raise OSError."""
    # The check may have replaced the file by a link, a pipe or a device.
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:  # noqa: PTH123
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST:
            raise OSError(f"it is not a regular file of at most {LARGEST // 1_000_000} MB")
        return file.read()

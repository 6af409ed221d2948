"""Naming protected files in texts for people and agents."""

from __future__ import annotations

import json
import posixpath
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator

# A group of fewer files is named file by file.
_FEW = 3

# Names of test files, and the pattern under which a list shows them.
_TEST_NAMES = (
    (re.compile(r"test_.*\.(\w+)"), "test_*.{}"),
    (re.compile(r".*_test\.(\w+)"), "*_test.{}"),
    (re.compile(r".*\.((?:test|spec)\.\w+)"), "*.{}"),
    (re.compile(r".*_spec\.(\w+)"), "*_spec.{}"),
)


def protected_groups(
    protected: Collection[str], paths: Iterable[str]
) -> tuple[str, ...]:
    """Return protected paths in short, the largest groups first.

    For example: `tests/ (12 files)`, `src/**/*_test.go (4 files)`, `pytest.ini`.
    `paths` are all files: a folder is named alone only if everything in it is
    protected.
    """
    all_in = Counter(path.partition("/")[0] for path in paths if "/" in path)
    protected_in = Counter(path.partition("/")[0] for path in protected if "/" in path)
    whole_folders: set[str] = set()
    for folder, number in protected_in.items():
        if number >= all_in[folder]:
            whole_folders.add(folder)
    members: dict[str, list[str]] = {}
    for path in protected:
        members.setdefault(_group(path, whole_folders), []).append(path)
    sizes: dict[str, int] = {}
    for group, group_paths in members.items():
        if len(group_paths) < _FEW:
            sizes |= dict.fromkeys(group_paths, 1)
        else:
            sizes[f"{group} ({len(group_paths)} files)"] = len(group_paths)
    return tuple(sorted(sizes, key=lambda name: (-sizes[name], name)))


def _group(path: str, whole_folders: Collection[str]) -> str:
    """Return the folder or pattern that a list shows for a path, or the path."""
    folder, _, inner_path = path.partition("/")
    if not inner_path:
        return path
    if folder in whole_folders:
        return f"{folder}/"
    name = posixpath.basename(path)
    for pattern, form in _TEST_NAMES:
        match = pattern.fullmatch(name)
        if match:
            return f"{folder}/**/{form.format(match[1])}"
    return path


def blamed_files(output: str, protected: Iterable[str]) -> Iterator[str]:
    """Yield the protected files in which an output reports an error.

    For example: `Makefile:3: *** missing separator`. A frame of a traceback, a failed
    assertion and the failure of a make target are no errors of the file.
    """
    for path in protected:
        name = rf"(?:\S*/)?{re.escape(path)}"
        # A frame is "a.py:3: in fixture", a failure "a.py:3: AssertionError".
        # AssertionError".
        error_line = rf"^(?:ERROR:?\s+)?{name}:(?:\d+:)*\s+(?!in |\w+$)\S"
        conftest = rf"while loading conftest '{name}'"
        if re.search(f"{error_line}|{conftest}", output, re.MULTILINE):
            yield path


def named_files(texts: Iterable[str], protected: Iterable[str]) -> Iterator[str]:
    """Yield the protected files that objective or criteria name.

    They are named by their path, or by a file name that is not a common word.
    """
    text = "\n".join(texts)
    for path in protected:
        names = {path, posixpath.basename(path)}
        # `Makefile` and `tests` may be meant as words.
        file_names = [name for name in names if "." in name or "/" in name]
        if any(_names(text, name) for name in file_names):
            yield path


def _names(text: str, name: str) -> bool:
    """Return whether a text has this name, and not a longer one around it."""
    pattern = rf"(?<![\w./-]){re.escape(name)}(?![\w/-])"
    return re.search(pattern, text) is not None


def allowing(paths: Iterable[str]) -> str:
    """Return the line of the goal file that lets the agent change these paths."""
    return f"[workspace] allow = {json.dumps(list(paths), ensure_ascii=False)}"

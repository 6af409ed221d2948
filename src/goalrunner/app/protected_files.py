"""What people and agents read about protected files: a short list, and warnings where a
goal points at one.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator

_FEW = 3
"""So many files are named one by one."""

_TEST_NAMES = (
    (re.compile(r"test_.*\.(\w+)"), "test_*.{}"),
    (re.compile(r".*_test\.(\w+)"), "*_test.{}"),
    (re.compile(r".*\.((?:test|spec)\.\w+)"), "*.{}"),
    (re.compile(r".*_spec\.(\w+)"), "*_spec.{}"),
)


def protected_groups(
    protected: Collection[str], paths: Iterable[str]
) -> tuple[str, ...]:
    """Return protected paths in short, most files first: `tests/ (12 files)`,
    `src/**/*_test.go (4 files)`, `pytest.ini`.

    `paths` are all files: a folder is named alone only if everything in it is
    protected.
    """
    all_in = Counter(path.partition("/")[0] for path in paths if "/" in path)
    held_in = Counter(path.partition("/")[0] for path in protected if "/" in path)
    whole = {folder for folder, number in held_in.items() if number >= all_in[folder]}
    groups = Counter(_group(path, whole) for path in protected)
    found: dict[str, int] = {}
    for path in sorted(protected):
        group = _group(path, whole)
        if groups[group] < _FEW:
            found[path] = 1
        else:
            found[f"{group} ({groups[group]} files)"] = groups[group]
    return tuple(sorted(found, key=lambda name: (-found[name], name)))


def _group(path: str, whole: Collection[str]) -> str:
    folder, _, rest = path.partition("/")
    if not rest:
        return path
    if folder in whole:
        return f"{folder}/"
    name = posixpath.basename(path)
    forms = (
        (found, form)
        for pattern, form in _TEST_NAMES
        if (found := pattern.fullmatch(name))
    )
    return next((f"{folder}/**/{form.format(found[1])}" for found, form in forms), path)


def blamed_files(output: str, protected: Iterable[str]) -> Iterator[str]:
    """Yield the protected files in which an output reports an error, such as
    `Makefile:3: *** missing separator`.

    A frame of a traceback, a failed assertion and the failure of a make target are no
    errors of the file.
    """
    for path in protected:
        name = re.escape(path)
        error = rf"^(?:ERROR:?\s+)?(?:\S*/)?{name}:(?:\d+:)*\s+(?!in |\w+$)\S|while loading conftest '(?:\S*/)?{name}'"
        if re.search(error, output, re.MULTILINE):
            yield path


def named_files(texts: Iterable[str], protected: Iterable[str]) -> Iterator[str]:
    """Yield the protected files that objective or criteria name by their path, or by a
    name that is not a common word.
    """
    said = "\n".join(texts)
    for path in protected:
        names = {path, posixpath.basename(path)}
        if any(
            re.search(rf"(?<![\w./-]){re.escape(name)}(?![\w/-])", said)
            for name in names
            if "." in name or "/" in name
        ):
            yield path


def allowing(paths: Iterable[str]) -> str:
    """Return the line of the goal file that lets the agent change these paths."""
    return f"[workspace] allow = {json.dumps(list(paths), ensure_ascii=False)}"

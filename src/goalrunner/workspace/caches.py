"""What checks leave behind. Owns the table of caches: a change in one of them makes no evidence stale.

The table is short on purpose. A line belongs here when a tool rewrites the path by merely being run, and when nobody
would keep work there. What a project's own checks write besides goes into `[workspace] outputs`. Caches are in the
snapshots all the same, so that `goal diff` and the proof can see them.

Not in the table, though they look like it: `*.pyc` outside of `__pycache__`, which Python imports like a source file,
and `.coveragerc`, which steers a measurement.
"""

from __future__ import annotations

CACHES: tuple[str, ...] = (
    # Python: compiled modules, test runners, type checkers, linters.
    "__pycache__/",
    ".pytest_cache/",
    ".hypothesis/",
    ".testmondata*",
    ".mypy_cache/",
    ".dmypy.json",
    ".pytype/",
    ".pyre/",
    ".ruff_cache/",
    ".import_linter_cache/",
    ".tox/",
    ".nox/",
    ".ipynb_checkpoints/",
    # Coverage: the measurement and its report.
    ".coverage",
    ".coverage.*",
    "htmlcov/",
    ".nyc_output/",
    # JavaScript: caches of bundlers, compilers, linters.
    "node_modules/.cache/",
    "node_modules/.vite/",
    "node_modules/.vitest/",
    ".eslintcache",
    ".stylelintcache",
    ".parcel-cache/",
    ".turbo/",
    "*.tsbuildinfo",
    # Builds and systems.
    ".gradle/",
    ".DS_Store",
    "Thumbs.db",
)
"""Patterns as in a .gitignore."""

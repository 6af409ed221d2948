"""Honest runs with Go tests. `go` is a stand-in that knows TestMain and one sum. test_known_limits.py has the attack."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from tests.adversarial.cases import Honest, cases, completes, each
from tests.support.arena import Arena
from tests.support.recordings import write_file

_GO = """#!/bin/sh
run='=== RUN   TestAdd\\n'
[ "$GOFLAGS" = -v ] || run=
grep -q 'a + b' sum/sum.go && { printf "$run--- PASS: TestAdd (0.00s)\\nPASS\\nok  \\texample/sum\\t0.01s\\n"; exit 0; }
printf "$run--- FAIL: TestAdd (0.00s)\\nFAIL\\nFAIL\\texample/sum\\t0.01s\\nFAIL\\n"
exit 1
"""
_FILES: Mapping[str, str] = {
    "go.mod": "module example\n",
    "sum/sum.go": "package sum\n\nfunc Add(a, b int) int {\n\treturn a - b\n}\n",
    "sum/sum_test.go": "package sum\n\nfunc TestAdd(t *testing.T) {\n\tif Add(1, 2) != 3 {\n\t\tt.Fail()\n\t}\n}\n",
}
_FIX = write_file(
    "sum/sum.go", "package sum\n\nfunc Add(a, b int) int {\n\treturn a + b\n}\n"
)
_RUNS = "package sum\n\nfunc TestMain(m *testing.M) {\n\tos.Exit(m.Run())\n}\n"
_MORE = "\nfunc TestMore(t *testing.T) {\n}\n"


def _goal(**workspace: Any) -> dict[str, Any]:
    validators = [{"name": "tests", "run": "go test ./..."}]
    return {
        "validators": validators,
        "workspace": {"protect": ["sum/sum_test.go"], **workspace},
    }


def _with_go(arena: Arena) -> None:
    machine = arena.folder / "machine"
    machine.mkdir()
    (machine / "go").write_text(_GO)
    (machine / "go").chmod(0o755)
    arena.environ["PATH"] = f"{machine}{os.pathsep}{arena.environ['PATH']}"


HONEST = cases(
    Honest(
        "tests beside protected ones",
        "a new _test.go, and another test in the file of the TestMain",
        (
            (
                _FIX,
                write_file("sum/more_test.go", f"package sum\n{_MORE}"),
                write_file("sum/main_test.go", _RUNS + _MORE),
            ),
        ),
        {**_FILES, "sum/main_test.go": _RUNS},
        _goal(),
        prepare=_with_go,
    ),
)


test_honest_go_tests_complete = each(completes, HONEST)

"""Which of Go's test files decide by a TestMain whether the protected tests beside them run."""

from __future__ import annotations

import pytest

from goalrunner.workspace.entry import Entry
from goalrunner.workspace.gotests import test_mains as mains
from goalrunner.workspace.protection import Protection

PROTECTED = Protection(protect=["sum/sum_test.go"])
BASE = {"sum/sum_test.go": "package sum\n", "sum/sum.go": "package sum\n"}
MAIN = "package sum\n\nfunc TestMain(m *testing.M) {\n\tos.Exit(0)\n}\n"


def entries(files: dict[str, str]) -> dict[str, Entry]:
    return {path: Entry("100644", str(hash(text))) for path, text in files.items()}


async def said(protection: Protection, base: dict[str, str], now: dict[str, str]) -> list[str]:
    async def old(path: str) -> bytes | None:
        return base[path].encode() if path in base else None

    async def new(path: str) -> bytes | None:
        return now[path].encode()

    return [str(item) for item in await mains(protection, entries(base), entries(now), old, new)]


RULE = "its TestMain decides whether the protected tests beside it run"


@pytest.mark.parametrize(
    "text",
    [
        MAIN,
        MAIN.replace("func TestMain", "func  /* a */ TestMain"),
        MAIN.replace("func TestMain", "func // a\n\tTestMain"),
        MAIN.replace("\n}\n", ""),  # cut off
    ],
)
async def test_a_planted_test_main_is_found_however_it_is_spelled(text: str) -> None:
    assert await said(PROTECTED, BASE, {**BASE, "sum/main_test.go": text}) == [f"sum/main_test.go was planted; {RULE}"]


async def test_a_changed_test_main_is_found_and_the_rest_of_its_file_is_free() -> None:
    base = {**BASE, "sum/main_test.go": MAIN}
    exits = {**BASE, "sum/main_test.go": MAIN.replace("os.Exit(0)", "os.Exit(m.Run() * 0)")}
    more = {**BASE, "sum/main_test.go": MAIN + "\nfunc TestMore(t *testing.T) {\n}\n"}

    assert await said(PROTECTED, base, exits) == [f"sum/main_test.go was changed; {RULE}"]
    assert await said(PROTECTED, base, more) == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("sum/more_test.go", "package sum\n\nfunc TestMore(t *testing.T) {\n}\n"),
        ("sum/more_test.go", "package sum\n\nfunc TestMainly(t *testing.T) {\n}\n"),
        ("other/main_test.go", MAIN),  # beside no protected test
        ("sum/main.go", MAIN),  # go test looks for it in test files alone
        ("main_test.go", MAIN),
    ],
)
async def test_honest_tests_are_free(path: str, text: str) -> None:
    assert await said(PROTECTED, BASE, {**BASE, path: text}) == []


async def test_what_is_allowed_or_protected_anyway_and_a_goal_that_protects_nothing() -> None:
    now = {**BASE, "sum/main_test.go": MAIN}
    allowed = Protection(protect=["sum/sum_test.go"], allow=["sum/main_test.go"])

    assert await said(allowed, BASE, now) == []
    assert await said(Protection(protect=["*_test.go"]), BASE, now) == []  # by its own rule
    assert await said(Protection(), BASE, now) == []

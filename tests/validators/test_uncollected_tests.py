"""The tests of files that could not be imported at the baseline."""

from __future__ import annotations

import pytest

from goalrunner.core.verdict import SuiteRecord, ValidatorResult
from goalrunner.validators.fewer_tests import tests_in as found_in
from goalrunner.validators.fewer_tests import with_uncollected

SOURCE = """
import pytest
from calc import add

def test_add(tmp_path):
    assert add(1, 2) == 3

def helper():
    pass

@pytest.mark.parametrize("a, b", [(1, 2)])
def test_many(a, b, capsys):
    pass

class TestMore:
    def test_more(self):
        pass
"""


@pytest.mark.parametrize(
    ("source", "found"),
    [
        (SOURCE, ("test_add", "TestMore::test_more")),
        ("def test_a(): pass\ndef test_a(): pass", ("test_a",)),
        ("@pytest.mark.skip\ndef test_a(): pass", ()),
        ("@pytest.mark.slow\ndef test_a(): pass", ()),
        ("@needs_docker\ndef test_a(): pass", ()),
        ("@pytest.fixture\ndef test_data(): pass", ()),
        ("def test_a(docker): pass", ()),
        ("def test_a():\n    if windows:\n        pytest.skip('no')", ()),
        (
            "def test_skips_blank_lines(): pass\ndef test_b():\n    assert run('--skip')",
            ("test_skips_blank_lines", "test_b"),
        ),
        ("async def test_a(): pass", ()),
        ("pytestmark = pytest.mark.slow\ndef test_a(): pass", ()),
        ("np = pytest.importorskip('numpy')\ndef test_a(): pass", ()),
        ("class TestA(Base):\n    def test_a(self): pass", ()),
        ("class TestA:\n    def setup_method(self): skip()\n    def test_a(self): pass", ()),
        ("def broken(", ()),
        ("\0", ()),
    ],
)
def test_what_certainly_runs_is_found(source: str, found: tuple[str, ...]) -> None:
    assert found_in(source.encode()) == found


async def test_they_count_as_tests_of_the_start() -> None:
    async def read(path: str) -> bytes | None:
        return SOURCE.encode() if path == "tests/test_a.py" else None

    base = ValidatorResult(
        name="tests",
        passed=False,
        command="pytest -q",
        test_ids=("tests/test_a.py", "tests/test_b.py::test_b", "tests/test_c.py"),
    )
    (found,) = await with_uncollected([base], read)
    assert found.test_ids == (
        "tests/test_a.py",
        "tests/test_a.py::TestMore::test_more",
        "tests/test_a.py::test_add",
        "tests/test_b.py::test_b",
        "tests/test_c.py",
    )
    for selected in (
        base.model_copy(update={"command": "pytest tests/test_a.py::test_add"}),
        base.model_copy(update={"suite": SuiteRecord(filters=("-k",))}),
    ):
        assert await with_uncollected([selected], read) == [selected]


LINUX = "import sys, pytest\nimport calc\npytestmark = pytest.mark.skipif(sys.platform == 'linux', reason='')\n"


@pytest.mark.parametrize(
    ("source", "required"),
    [
        (LINUX + "def test_a(): pass", False),
        ("@unittest.skipUnless(shutil.which('docker'), '')\nclass A(TestCase): ...", False),
        ("@pytest.mark.skipif(not calc.READY, reason='')\ndef test_a(): pass", True),
        ("calc = pytest.importorskip('calc')\n" + LINUX + "def test_a(): pass", True),
        (LINUX + "@pytest.mark.skipif(condition=calc.OFF, reason='')\ndef test_a(): pass", True),
        (LINUX + "@pytest.mark.skipif('calc.OFF', reason='')\ndef test_a(): pass", True),
        ("@pytest.mark.skip\ndef test_a(): pass", True),
        ("@needs_docker\ndef test_a(): pass", True),
        ("def broken(", True),
    ],
)
async def test_a_file_whose_tests_the_environment_may_skip_need_not_run_one(source: str, required: bool) -> None:
    async def read(path: str) -> bytes | None:
        return source.encode()

    base = ValidatorResult(name="tests", passed=False, command="pytest", test_ids=("tests/test_a.py",))
    (found,) = await with_uncollected([base], read)
    assert found.test_ids == (("tests/test_a.py",) if required else ())


@pytest.mark.parametrize(
    ("condition", "may_skip"),
    [
        ('shutil.which("docker") is None, reason="docker is missing or not running"', True),
        ('sys.platform == "win32" or not os.environ.get("DB"), reason="no database"', True),
        ('condition=sys.platform == "win32", reason="not here"', True),
        ('sys.platform == "win32", app.OFF, reason="not here"', False),
        ('sys.platform not in app.PLATFORMS, reason="not here"', False),
        ('os.environ.get("FAST") == app.FAST, reason="fast"', False),
    ],
)
async def test_a_condition_of_the_environment_alone_may_skip_all_tests_of_a_file(
    condition: str, may_skip: bool
) -> None:
    async def read(_: str) -> bytes | None:
        return f"import app\n\n@pytest.mark.skipif({condition})\ndef test_a(): pass\n".encode()

    base = ValidatorResult(name="tests", passed=False, command="pytest -q", test_ids=("tests/test_a.py",))
    (found,) = await with_uncollected([base], read)
    assert found.test_ids == (() if may_skip else base.test_ids)

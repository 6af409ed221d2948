"""The files that a check is made of."""

from __future__ import annotations

from pathlib import Path

import pytest

from goalrunner.core.goal_tables import ValidatorSpec
from goalrunner.validators.check_files import NAMED, check_files

FILES = """
check.sh bin/check tools/__init__.py tools/check.py checks.py pkg/__init__.py pkg/more/__init__.py src/app.py
build/Make.mk sub/check.sh sub/checks.py tests/test_a.py lib/helper.py entry/__main__.py
""".split()  # noqa: SIM905 - a table, to be read


def named_paths(spec: ValidatorSpec, workspace: Path) -> tuple[str, ...]:
    return tuple(path for path, role in check_files(spec, workspace).items() if role in NAMED)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = tmp_path / "ws"
    for name in FILES:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (root / "link.sh").symlink_to("bin/check")
    (root / "out.sh").symlink_to(tmp_path / "outside.sh")
    (tmp_path / "outside.sh").touch()
    return root


@pytest.mark.parametrize(
    ("line", "paths"),
    [
        ("./check.sh --all", ("check.sh",)),
        ("sh check.sh", ("check.sh",)),
        ("bash -e ./check.sh && bin/check", ("bin/check", "check.sh")),
        ("python tools/check.py src/app.py", ("tools/check.py",)),
        ("python -W error tools/check.py", ("tools/check.py",)),
        ("python entry", ("entry/__main__.py",)),
        ("python entry/ --all", ("entry/__main__.py",)),
        ("python -m tools.check", ("tools/__init__.py", "tools/check.py")),
        ("uv run tools/check.py", ("tools/check.py",)),
        ("uv run python tools/check.py", ("tools/check.py",)),
        ("coverage run tools/check.py", ("tools/check.py",)),
        ("make -f build/Make.mk check", ("build/Make.mk",)),
        ("./check.sh 2>&1 --all > log", ("check.sh",)),
        ("make 2>&1 -f build/Make.mk", ("build/Make.mk",)),
        ("make --file=build/Make.mk", ("build/Make.mk",)),
        ("make -fbuild/Make.mk check", ("build/Make.mk",)),
        ("gmake -f build/Make.mk", ("build/Make.mk",)),
        ("just -f build/Make.mk check", ("build/Make.mk",)),
        ("nox --noxfile tools/check.py", ("tools/check.py",)),
        ("tox -c build/Make.mk", ("build/Make.mk",)),
        ("npx ts-node tools/check.py", ("tools/check.py",)),
        ("Rscript bin/check", ("bin/check",)),
        ("cd sub && ./check.sh", ("check.sh", "sub/check.sh")),
        ("sh -c './check.sh'", ("check.sh",)),
        ("./link.sh", ("bin/check", "link.sh")),
        ("./out.sh", ("out.sh",)),
        ("pytest tests/test_a.py", ()),
        ("mypy src/app.py", ()),
        ("ruff check . && pytest -q", ()),
        ("python -c 'import checks' checks.py", ()),
        ("./gone.sh", ()),
        ("../outside.sh", ()),
        ("./check.sh 'unclosed", ()),
    ],
)
def test_scripts_of_a_command_line(workspace: Path, line: str, paths: tuple[str, ...]) -> None:
    assert named_paths(ValidatorSpec(run=line), workspace) == paths


def test_files_of_a_callable(workspace: Path) -> None:
    assert named_paths(ValidatorSpec(python="checks:done"), workspace) == ("checks.py",)
    assert named_paths(ValidatorSpec(python="pkg.more:done"), workspace) == ("pkg/__init__.py", "pkg/more/__init__.py")
    assert named_paths(ValidatorSpec(python="checks:done", cwd="sub"), workspace) == ("checks.py", "sub/checks.py")
    on_path = ValidatorSpec(python="helper:done", env={"PYTHONPATH": "lib"})
    assert named_paths(on_path, workspace) == ("lib/helper.py",)
    assert named_paths(ValidatorSpec(python="installed:done"), workspace) == ()


def test_the_folder_of_the_check_counts(workspace: Path) -> None:
    assert named_paths(ValidatorSpec(run="./check.sh", cwd="sub"), workspace) == ("sub/check.sh",)

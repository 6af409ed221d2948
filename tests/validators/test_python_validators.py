"""Python checks named in a goal file: real child processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from goalrunner.core.goal_tables import ValidatorSpec
from goalrunner.core.ports import ValidationContext, Validator
from goalrunner.core.verdict import ValidatorResult
from goalrunner.system.launcher import ProcessLauncher
from goalrunner.validators import child
from goalrunner.validators.python_validators import PythonValidator
from tests.support.agents import Chat, validation

CHECKS = """
import asyncio, json, os, sys, time

def green(response, agent):
    print("looking", flush=True)
    assert response == {"role": "assistant", "content": [{"text": "done"}]}
    assert agent.messages[-1]["content"] == "done"
    return True

async def red(response, agent):
    await asyncio.sleep(0)
    return {"passed": False, "feedback": "Not yet.\\nSay more."}

def outcome(response, agent):
    from goalrunner.core.verdict import ValidationOutcome
    return ValidationOutcome(passed=True, feedback="fine")

def crash(response, agent):
    raise ValueError("no such column")

def text(response, agent):
    return "true"

def leave(response, agent):
    sys.exit(0)

def vanish(response, agent):
    os._exit(0)

def hang(response, agent):
    time.sleep(60)

def surroundings(response, agent):
    words = [os.environ["GOAL_RUN_ID"], os.environ["EXTRA"], os.environ.get("GOAL_TEST_SECRET", "-"), os.getcwd()]
    return {"passed": True, "feedback": " ".join(words)}

def late(response, agent):
    import atexit
    atexit.register(os._exit, 7)
    return True

def noisy(response, agent):
    print(json.dumps({"kind": "outcome", "passed": True, "feedback": "", "nonce": "guessed"}))
    return False

class Group:
    @staticmethod
    def member(response, agent):
        return True

constant = 3
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "checks.py").write_text(CHECKS)
    (tmp_path / "scratch").mkdir()
    return folder


async def check(
    workspace: Path,
    target: str,
    context: ValidationContext | None = None,
    path: str = "",
    **more: Any,
) -> tuple[ValidatorResult, str]:
    spec = ValidatorSpec(
        python=target, env={"EXTRA": "more", "PYTHONPATH": path}, **more
    )
    validator: Validator = PythonValidator(
        spec, ProcessLauncher(), {"PATH": os.environ["PATH"]}
    )
    result, output = await validator.validate(
        context or validation(workspace, workspace.parent / "scratch")
    )
    assert result.command == validator.command == target
    return result, output.read_text() if output else ""


async def test_a_green_check(workspace: Path) -> None:
    result, output = await check(workspace, "checks:green")
    assert (result.passed, result.reason, result.summary, result.name) == (
        True,
        "passed",
        "passed",
        "green",
    )
    assert output == "looking\n"
    assert result.duration > 0
    assert [path.name for path in workspace.iterdir()] == ["checks.py"]
    assert [path.suffix for path in (workspace.parent / "scratch").iterdir()] == [
        ".out"
    ]


async def test_a_red_check_speaks_to_the_agent(workspace: Path) -> None:
    result, output = await check(workspace, "checks:red")
    assert (result.passed, result.reason, result.summary) == (False, "red", "Not yet.")
    assert (result.feedback, output) == ("Not yet.\nSay more.", "Not yet.\nSay more.\n")


async def test_an_outcome_object_and_a_nested_name_count(workspace: Path) -> None:
    assert (await check(workspace, "checks:outcome"))[0].feedback == "fine"
    assert (await check(workspace, "checks:Group.member"))[0].passed


async def test_a_crash_is_red_with_its_traceback(workspace: Path) -> None:
    result, output = await check(workspace, "checks:crash")
    assert (result.passed, result.reason, result.summary) == (
        False,
        "crashed",
        "ValueError: no such column",
    )
    assert result.feedback == (
        "Traceback (most recent call last):\n"
        f'  File "{workspace / "checks.py"}", line 19, in crash\n'
        '    raise ValueError("no such column")\n'
        "ValueError: no such column"
    )
    assert output == f"{result.feedback}\n"


async def test_anything_else_is_invalid(workspace: Path) -> None:
    result, _ = await check(workspace, "checks:text")
    assert (result.passed, result.reason) == (False, "invalid_result")
    assert result.feedback == (
        "the validator returned str; it must return a bool, {'passed': bool, 'feedback': str} or an object with passed "
        "and feedback"
    )


@pytest.mark.parametrize("name", ["leave", "vanish"])
async def test_leaving_without_a_result_is_red(workspace: Path, name: str) -> None:
    result, _ = await check(workspace, f"checks:{name}")
    assert (result.passed, result.reason, result.summary) == (
        False,
        "crashed",
        "ended without a result (exit 0)",
    )


async def test_an_end_that_fails_after_the_result_is_red(workspace: Path) -> None:
    result, _ = await check(workspace, "checks:late")
    assert (result.passed, result.reason, result.summary) == (
        False,
        "crashed",
        "exit 7 after its result",
    )


async def test_a_deadline_is_red(workspace: Path) -> None:
    result, _ = await check(workspace, "checks:hang", timeout=1.0)
    assert (result.passed, result.reason, result.summary) == (
        False,
        "timeout",
        "timed out after 1 s",
    )


@pytest.mark.parametrize(
    ("target", "summary"),
    [
        (
            "nowhere:check",
            'there is no module "nowhere" in the workspace or among the installed packages',
        ),
        (
            "nowhere.inner:check",
            'there is no module "nowhere" in the workspace or among the installed packages',
        ),
        ("checks:missing", 'the module "checks" has no "missing"'),
        ("checks:constant", '"checks:constant" is not callable'),
    ],
)
async def test_what_is_not_there_is_not_found(
    workspace: Path, target: str, summary: str
) -> None:
    result, _ = await check(workspace, target)
    assert (result.passed, result.reason, result.summary) == (
        False,
        "not_found",
        summary,
    )


@pytest.mark.parametrize(
    "content", ["import nowhere\n", "this is no Python\n", "raise SystemExit(0)\n"]
)
async def test_a_module_that_does_not_load_is_a_crash(
    workspace: Path, content: str
) -> None:
    (workspace / "broken.py").write_text(content)
    result, _ = await check(workspace, "broken:check")
    assert (result.passed, result.reason) == (False, "crashed")


async def test_the_environment_is_the_one_given(workspace: Path) -> None:
    os.environ["GOAL_TEST_SECRET"] = "1"
    try:
        result, _ = await check(
            workspace, "checks:surroundings", pass_env=("GOAL_RUN_ID",)
        )
    finally:
        del os.environ["GOAL_TEST_SECRET"]
    assert result.feedback == f"k3f9-do-it more - {workspace}"


async def test_what_is_printed_is_never_the_answer(workspace: Path) -> None:
    result, output = await check(workspace, "checks:noisy")
    assert (result.passed, result.summary) == (False, "not passed")
    assert json.loads(output)["passed"] is True


async def test_the_workspace_cannot_replace_what_calls_the_check(
    workspace: Path,
) -> None:
    for name in (
        "json.py",
        "asyncio.py",
        "sitecustomize.py",
        "goalrunner.py",
        "child.py",
    ):
        (workspace / name).write_text("import os\nos._exit(0)\n")
    (workspace / "plain.py").write_text(
        "def check(response, agent):\n    return False\n"
    )
    result, _ = await check(workspace, "plain:check", path=str(workspace))
    assert (result.passed, result.reason) == (False, "red")


async def test_a_forged_answer_is_red(workspace: Path) -> None:
    forged = (
        "import os, pathlib\n"
        "def check(response, agent):\n"
        "    folder = pathlib.Path(os.environ['GOAL_RESPONSE_FILE']).parent\n"
        "    for number in range(9):\n"
        '        answer = \'{"nonce": "x", "kind": "outcome", "passed": true, "feedback": ""}\'\n'
        "        (folder / f'{number}.result.json').write_text(answer)\n"
        "    os._exit(0)\n"
    )
    (workspace / "forging.py").write_text(forged)
    result, _ = await check(
        workspace, "forging:check", pass_env=("GOAL_RESPONSE_FILE",)
    )
    assert (result.passed, result.reason) == (False, "crashed")


async def test_modules_of_a_python_path_are_found(
    workspace: Path, tmp_path: Path
) -> None:
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "shared_checks.py").write_text(
        "def check(response, agent):\n    return True\n"
    )
    assert (
        await check(workspace, "shared_checks:check", path=str(tmp_path / "library"))
    )[0].passed


async def test_a_chat_with_odd_content_still_reaches_the_check(workspace: Path) -> None:
    context = validation(workspace, workspace.parent / "scratch", response="done")
    odd = {"role": "assistant", "content": "done", "extra": object(), "half": "\ud800"}
    chat = Chat(odd)
    context = ValidationContext(**{**vars(context), "conversation": chat})
    assert (await check(workspace, "checks:green", context))[0].passed


async def test_a_folder_outside_is_refused(workspace: Path) -> None:
    (workspace / "out").symlink_to(workspace.parent)
    result, _ = await check(workspace, "checks:green", cwd="out")
    assert (result.passed, result.reason) == (False, "not_found")


INSTALLED = "def ok(response, agent):\n    return {'passed': False, 'feedback': 'the installed one'}\n"
FORGED = "def ok(response, agent):\n    return True\n"


@pytest.mark.parametrize(
    ("target", "installed", "written"),
    [
        ("teamchecks:ok", "teamchecks.py", "teamchecks.py"),
        ("teamchecks:ok", "teamchecks/__init__.py", "teamchecks.py"),
        ("teamchecks.words:ok", "teamchecks/words.py", "teamchecks.py"),
        ("teamchecks.words:ok", "teamchecks/words.py", "teamchecks/words.py"),
        ("teamchecks.words:ok", "teamchecks/words.py", "teamchecks/__init__.py"),
        (
            "teamchecks.deep.words:ok",
            "teamchecks/deep/words.py",
            "teamchecks/deep/__init__.py",
        ),
    ],
)
async def test_an_installed_check_is_not_replaced_by_a_file_in_the_workspace(
    workspace: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    target: str,
    installed: str,
    written: str,
) -> None:
    for folder, name, content in (
        (tmp_path / "site", installed, INSTALLED),
        (workspace, written, FORGED),
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    if written == "teamchecks/__init__.py":
        (workspace / "teamchecks" / "words.py").write_text(FORGED)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    result, _ = await check(workspace, target)
    assert (result.passed, result.feedback) == (False, "the installed one")


async def test_a_check_that_is_installed_as_a_link_is_not_replaced(
    workspace: Path, tmp_path: Path
) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "linked.py").write_text(INSTALLED)
    finder = (
        "import sys, importlib.util\n"
        "class Link:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        place = {str(tmp_path / 'linked.py')!r}\n"
        "        return importlib.util.spec_from_file_location(name, place) if name == 'teamchecks' else None\n"
        "sys.meta_path.append(Link())\n"
    )
    (workspace / "teamchecks.py").write_text(FORGED)
    program = f"{finder}\nimport runpy\nrunpy.run_path({child.__file__!r}, run_name='__main__')\n"
    result = tmp_path / "result.json"
    request = {
        "target": "teamchecks:ok",
        "response": {},
        "messages": [],
        "first": [],
        "installed": [],
        "workspace": [str(workspace)],
        "result": str(result),
        "nonce": "n",
        "scores": False,
    }
    subprocess.run(
        [sys.executable, "-I", "-c", program],
        input=json.dumps(request).encode(),
        check=True,
    )
    assert json.loads(result.read_text())["feedback"] == "the installed one"


async def test_an_empty_folder_of_that_name_is_no_installed_check(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "site" / "checks").mkdir(parents=True)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    assert (await check(workspace, "checks:green"))[0].passed


async def test_a_check_in_the_workspace_imports_from_there_and_from_the_installed_packages(
    workspace: Path,
) -> None:
    for name in (
        "random.py",
        "pydantic.py",
        "pydantic_core.py",
        "typing_extensions.py",
    ):
        (workspace / name).write_text("raise ValueError('the wrong one')\n")
    (workspace / "measure.py").write_text("LIMIT = 3\n")
    (workspace / "using.py").write_text(
        "import random, pydantic, goalrunner.core.verdict as v\nfrom measure import LIMIT\n"
        "def check(response, agent):\n    return v.ValidationOutcome(passed=LIMIT == 3)\n"
    )
    result, _ = await check(workspace, "using:check")
    assert (result.passed, result.feedback) == (True, "")


@pytest.fixture
def site(workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an installed check, which a file of the workspace has the name of."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "teamchecks.py").write_text(INSTALLED)
    (workspace / "teamchecks.py").write_text(FORGED)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    return tmp_path / "site"


@pytest.mark.usefixtures("site")
async def test_folders_of_a_python_path_inside_the_workspace_count_as_the_workspace(
    workspace: Path,
) -> None:
    (workspace / "src").mkdir()
    (workspace / "teamchecks.py").rename(workspace / "src" / "teamchecks.py")
    (workspace / "src" / "mine.py").write_text(FORGED)
    assert not (await check(workspace, "teamchecks:ok", path="src"))[0].passed
    assert (await check(workspace, "mine:ok", path="src"))[0].passed


async def test_an_environment_inside_the_workspace_counts_as_installed(
    workspace: Path, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = workspace / ".venv" / "site-packages"
    packages.parent.mkdir()
    site.rename(packages)
    monkeypatch.setattr(sys, "prefix", str(workspace / ".venv"))
    monkeypatch.syspath_prepend(str(packages))
    assert not (await check(workspace, "teamchecks:ok"))[0].passed


@pytest.mark.usefixtures("site")
async def test_a_workspace_inside_the_interpreters_prefix_is_still_the_workspace(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.syspath_prepend(str(workspace))
    assert not (await check(workspace, "teamchecks:ok"))[0].passed


@pytest.mark.parametrize(
    "body",
    [
        "return {'passed': False, 'feedback': 'bad \\ud800 name'}",
        "raise ValueError('\\ud800')",
    ],
)
async def test_half_a_character_in_the_feedback_does_not_lose_the_reason(
    workspace: Path, body: str
) -> None:
    (workspace / "half.py").write_text(f"def check(response, agent):\n    {body}\n")
    result, _ = await check(workspace, "half:check")
    assert result.summary in ("bad ? name", "ValueError: ?")

"""Files as files: missing, unreadable, too large, in the wrong encoding."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalrunner.core.errors import GoalFileError
from goalrunner.core.goal import Goal
from goalrunner.core.goal_tables import ValidatorSpec
from goalrunner.goalfile.loading import load_goal, load_goal_text

GOAL = b"objective = 'x'\nmodel = 'a/b'\nvalidator = 'y'\n"


def refusal(path: Path) -> str:
    with pytest.raises(GoalFileError) as caught:
        load_goal(path, {}, {})
    return str(caught.value)


def written(folder: Path, data: bytes) -> Path:
    path = folder / "goal.toml"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    "data", [GOAL, b"\xef\xbb\xbf" + GOAL, GOAL.replace(b"\n", b"\r\n")]
)
def test_plain_text_with_a_byte_order_mark_or_windows_line_ends_is_read(
    tmp_path: Path, data: bytes
) -> None:
    assert load_goal(written(tmp_path, data), {}, {}).objective == "x"


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (
            b"\xef\xbb\xbf" + GOAL + b"\r\nownre = 1",
            ':5:1  unknown key "ownre"; did you mean "owner"?',
        ),
        (
            GOAL.decode().encode("utf-16"),
            ":1:1  byte 0xff at offset 0 is not UTF-8; save the file as UTF-8",
        ),
        (
            GOAL + b"# caf\xe9",
            ":4:6  byte 0xe9 at offset 51 is not UTF-8; save the file as UTF-8",
        ),
        (GOAL + b"\0", ":4:1  not valid TOML: invalid statement"),
        (
            b"#" * 10_000_000,
            "  is larger than 1 MB; a goal file is a few lines of TOML",
        ),
    ],
)
def test_what_is_wrong_with_the_bytes_is_said(
    tmp_path: Path, data: bytes, problem: str
) -> None:
    path = written(tmp_path, data)
    assert refusal(path) == f"{path}{problem}"


def test_a_missing_file_is_told_the_nearest_name(tmp_path: Path) -> None:
    missing = tmp_path / "objectiv.toml"
    assert (
        refusal(missing)
        == f'{missing}  no such file; write one, or: goal run --objective "..."'
    )
    (tmp_path / "other.toml").touch()
    far = tmp_path / "zzz"
    assert refusal(far) == f'{far}  no such file; goal files may be "other.toml"'
    (tmp_path / "objective.toml").touch()
    assert (
        refusal(missing)
        == f'{missing}  no such file; did you mean "{tmp_path}/objective.toml"?'
    )


def test_a_folder_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path) == f"{tmp_path}  cannot be read: is a directory"


def test_a_file_below_a_file_and_a_name_that_no_file_can_have(tmp_path: Path) -> None:
    below = written(tmp_path, GOAL) / "x"
    assert refusal(below) == f"{below}  cannot be read: not a directory"
    assert refusal(Path("a\0b")).endswith("cannot be read: embedded null byte")
    long = tmp_path / ("a" * 5000)
    assert refusal(long) == f"{long}  cannot be read: file name too long"


def test_a_file_without_permission_is_said(tmp_path: Path) -> None:
    path = written(tmp_path, GOAL)
    path.chmod(0)
    user = os.geteuid()
    os.seteuid(user or 65534)  # root may read everything
    try:
        assert refusal(path) == f"{path}  cannot be read: permission denied"
    finally:
        os.seteuid(user)


def test_relative_paths_start_from_the_folder_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "goals" / "ws").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    text = "objective='x'\nmodel='scripted/a.jsonl'\njudge='scripted//abs/j.jsonl'\nworkspace.path='ws'"
    (tmp_path / "goals" / "goal.toml").write_text(text)
    goal = load_goal(Path("../goals/goal.toml"), {}, {})
    folder = (tmp_path / "goals").resolve()
    assert goal.agent.model == f"scripted/{folder}/a.jsonl"
    assert goal.judge.model == "scripted//abs/j.jsonl"
    assert goal.workspace.path == str(folder / "ws")


def test_the_current_folder_is_the_workspace_unless_said_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    path = written(tmp_path, GOAL)
    assert load_goal(path, {}, {}).workspace.path == str((tmp_path / "here").resolve())
    assert load_goal(path, {"workspace.path": ".."}, {}).workspace.path == str(
        tmp_path.resolve()
    )


def test_a_workspace_that_is_a_file_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, GOAL + b"workspace.path = 'goal.toml'")
    assert (
        refusal(path)
        == f'{path}:4:18  workspace.path "{path.resolve()}" is not a folder'
    )


def goal_or_error(load: Callable[[], Goal]) -> Goal | GoalFileError:
    """What loading comes to; any other exception is the test's failure."""
    try:
        return load()
    except GoalFileError as error:
        return error


SCRAPS = """\
objective = 'x'
model = 'a/b'
validator = 'y'
judge = 'agent'
[judge]
[agent]
[[validators]]
run = 'x'
timeout = 5
env = {A = 'b'}
params.a.b = 1
expect = 1
[budget]
tokens = inf
[workspace]
path = '~nobody0/x'
validators = [1, {run = 2}]
resume_prompt = '{a[b}'
agent = []
name = ''
judge = {model = 1}
[a.b]
cwd = '..'"""
LINES = st.sampled_from(SCRAPS.splitlines())
TEXTS = st.one_of(
    st.text(max_size=60),
    st.lists(LINES, max_size=8).map("\n".join),
    st.tuples(LINES, st.text(alphabet="[]{}=.,'\"\\#\n a1", max_size=8), LINES).map(
        "".join
    ),
)


@given(
    st.one_of(
        TEXTS.map(lambda text: text.encode("utf-8", "surrogatepass")),
        st.binary(max_size=60),
    )
)
def test_any_bytes_give_a_goal_or_a_goal_file_error(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = written(tmp_path_factory.getbasetemp(), data)
    result = goal_or_error(lambda: load_goal(path, {}, {}))
    if isinstance(result, Goal):
        assert result.objective.strip()
    else:
        assert result.problems
        assert all(problem.message.isprintable() for problem in result.problems)


KEY_NAMES = st.sampled_from(
    [
        *Goal.model_fields,
        *ValidatorSpec.model_fields,
        "validator",
        "model",
        "output",
        "path",
        "x",
    ]
)
VALUES = st.recursive(
    st.one_of(
        st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.dates(), st.times(), st.datetimes(),
        st.sampled_from(["1h", "chat", "a:b", "(", "{", "scripted/x", "\0", "10" * 3000]),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEY_NAMES, inner, max_size=4)),
    max_leaves=12,
)  # fmt: skip


@given(st.dictionaries(KEY_NAMES, VALUES, max_size=6))
def test_any_table_gives_a_goal_or_a_goal_file_error_with_a_place(
    table: dict[str, object],
) -> None:
    import tomli_w

    text = tomli_w.dumps(table)
    lines = text.split("\n")
    result = goal_or_error(lambda: load_goal_text(text, "goal.toml", {}, {}))
    if isinstance(result, Goal):
        assert result.has_judge or result.validators
    else:
        for problem in result.problems:
            without_place = any(
                word in problem.message
                for word in (
                    "is missing",
                    "neither an agent",
                    "no model",
                    "neither a validator",
                    "nested",
                    "digits",
                )
            )
            assert (
                without_place or 1 <= problem.column <= len(lines[problem.line - 1]) + 1
            )

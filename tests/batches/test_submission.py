"""From goal files, folders and tables to the entries of a batch."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from goalrunner.batches.submission import submit
from goalrunner.core.errors import UsageError
from tests.support.workspaces import write

GOAL = """\
objective = "{objective}"
validator = "true"
agent = "command"
"""


def goal(objective: str, more: str = "") -> str:
    agent = '[agent]\nuse = "command"\ncommand = ["true"]\n'
    return f'objective = "{objective}"\nvalidator = "true"\n{more}\n{agent}'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write(
        tmp_path,
        {
            "goals/a.toml": goal("A"),
            "goals/b.toml": goal("B", 'after = ["a.toml"]'),
            "goals/pyproject.toml": "[project]\nname = 'p'\n",
            "goals/other.toml": "[settings]\nx = 1\n",
            "more/a.toml": goal("A2", 'workspace = { path = "." }'),
            "template.toml": goal("Fix {file}", "owner = '{{file}} ${file}'"),
            "rows.csv": 'file,name\n"a,b",first\n\nc,\n',
            "rows.jsonl": '{"file": "x"}\n{"file": 3}\n',
        },
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_folder_has_its_goal_files_in_their_order(folder: Path) -> None:
    submission = submit([Path("goals"), Path("more/a.toml")], None, {})
    first, second, third = submission.entries
    assert [first.name, second.name, third.name] == ["goals/a", "b", "more/a"]
    assert (second.key, second.after, second.objective) == ("2", ("1",), "B")
    assert third.workspace == str(folder / "more")
    assert submission.texts["3"] == (folder / "more/a.toml").read_text()


def test_rows_fill_the_columns_of_the_template(folder: Path) -> None:
    template = Path("template.toml")
    submission = submit([Path("rows.csv"), Path("rows.jsonl")], template, {})
    names = [entry.name for entry in submission.entries]
    objectives = [entry.objective for entry in submission.entries]
    assert names == ["first", "rows-2", "rows-1", "rows-2-2"]
    assert objectives == ["Fix a,b", "Fix c", "Fix x", "Fix 3"]
    assert {entry.source for entry in submission.entries} == {str(folder / template)}
    assert 'owner = "{file} ${file}"' in submission.texts["1"]


def test_a_column_may_have_any_name_that_braces_can_hold(folder: Path) -> None:
    owner = "owner = '{file name} {größe} {{file name}} {\"a\": 1}'"
    write(
        folder,
        {
            "wide.toml": goal("Fix {file name}", owner),
            "wide.csv": "file name,größe\nx,3\n",
        },
    )
    submission = submit([Path("wide.csv")], Path("wide.toml"), {})
    filled = tomllib.loads(submission.texts["1"])
    assert filled["objective"] == "Fix x"
    assert filled["owner"] == 'x 3 {file name} {"a": 1}'


def test_a_value_stays_within_its_text(folder: Path) -> None:
    value = '"""\nagent = "claude"\n\'\'\'\\{file}'
    (folder / "rows.jsonl").write_text(json.dumps({"file": value}))
    submission = submit([Path("rows.jsonl")], Path("template.toml"), {})
    filled = tomllib.loads(submission.texts["1"])
    assert filled["objective"] == f"Fix {value}"
    assert filled["agent"] == {"use": "command", "command": ["true"]}


def test_many_rows_may_have_one_name_and_one_mistake(folder: Path) -> None:
    lines = [f"f{number},same" for number in range(400)]
    (folder / "rows.csv").write_text("\n".join(["file,name", *lines]))
    submission = submit([Path("rows.csv")], Path("template.toml"), {})
    assert submission.entries[-1].name == "same-400"
    write(folder, {"template.toml": "objective = '{file}'\nvalidatr = '{file}'"})
    with pytest.raises(UsageError) as raised:
        submit([Path("rows.csv")], Path("template.toml"), {})
    problems = str(raised.value).splitlines()
    assert len(problems) == 31
    assert "more problems" in problems[-1]


@pytest.mark.parametrize(
    ("files", "arguments", "expected"),
    [
        ({}, ["goals/a.toml", "goals"], "goals/a.toml is listed twice"),
        ({}, ["goals/b.toml"], 'after names "a.toml", which is not a goal of this'),
        (
            {"goals/a.toml": goal("A", 'after = ["b.toml"]')},
            ["goals"],
            "the goals wait for each other: a after b after a",
        ),
        (
            {"goals/a.toml": goal("A", 'after = ["a.toml"]')},
            ["goals/a.toml"],
            "the goals wait for each other: a after a",
        ),
        ({}, ["none.toml"], "none.toml  no such file"),
        ({"empty/x.txt": ""}, ["empty"], "there is no goal file in empty"),
        ({}, ["rows.csv"], "rows.csv is a table, and needs a goal file for its rows"),
        ({}, ["-t", "goals"], "--template is given, but no table with its columns"),
        ({"rows.csv": "a\n"}, ["-t", "rows.csv"], "rows.csv has no rows"),
        (
            {"rows.csv": "a\n1,2\n"},
            ["-t", "rows.csv"],
            "rows.csv:2: the row has 2 values",
        ),
        ({"rows.csv": "a,a\n1,2\n"}, ["-t", "rows.csv"], '"a" is there twice'),
        ({"rows.csv": 'a\n"1\n'}, ["-t", "rows.csv"], "rows.csv:2: unexpected end"),
        ({"rows.csv": "fil\n1\n"}, ["-t", "rows.csv"], "did you mean {fil}?"),
        (
            {"rows.csv": "file\n1\n2\n1\n"},
            ["-t", "rows.csv"],
            "rows.csv:4 makes the same goal as rows.csv:2",
        ),
        (
            {"rows.jsonl": "[]\n"},
            ["-t", "rows.jsonl"],
            "rows.jsonl:1: not a JSON object",
        ),
        ({"rows.jsonl": "\n{\n"}, ["-t", "rows.jsonl"], "rows.jsonl:2: not valid JSON"),
        (
            {"rows.jsonl": '{"file": [1]}\n'},
            ["-t", "rows.jsonl"],
            'the value of "file" is neither text nor',
        ),
        # All problems of all goals at once.
        (
            {"goals/a.toml": "objectiv = 1\nvalidator = 'x'", "goals/b.toml": "x = "},
            ["goals/a.toml", "goals/b.toml"],
            "goals/a.toml:1:1  unknown key",
        ),
    ],
)
def test_a_mistake_is_reported_before_anything_starts(
    folder: Path, files: dict[str, str], arguments: list[str], expected: str
) -> None:
    write(folder, files)
    template = Path("template.toml") if "-t" in arguments else None
    paths = [Path(name) for name in arguments if name != "-t"]
    with pytest.raises(UsageError) as raised:
        submit(paths, template, {})
    assert expected in str(raised.value)

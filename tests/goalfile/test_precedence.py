"""Options before environment before file before default, each named in its own words."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalrunner.core.errors import GoalFileError, Problem, UsageError
from goalrunner.goalfile.loading import load_goal_text, resolve_goal

FILE = "objective='file'\nmodel='file/a'\njudge='file/j'\nvalidator='file'\ntimeout=1\nmax_iterations=2\n"
OPTIONS: dict[str, Any] = {
    "objective": "option",
    "validators": ["pytest -q"],
    "agent.model": "option/a",
}


def refusal(
    overrides: Mapping[str, Any], environ: Mapping[str, str], text: str | None = None
) -> str:
    if text is None:
        with pytest.raises(GoalFileError) as caught:
            resolve_goal({}, overrides, environ)
    else:
        with pytest.raises(GoalFileError) as caught:
            load_goal_text(text, "goal.toml", overrides, environ)
    return str(caught.value)


@pytest.mark.parametrize(
    ("options", "environ", "text", "model"),
    [
        (
            {"agent.model": "o/a"},
            {"GOAL_MODEL": "e/a", "LLM_MODEL": "l/a"},
            FILE,
            "o/a",
        ),
        ({}, {"GOAL_MODEL": "e/a", "LLM_MODEL": "l/a"}, FILE, "e/a"),
        (
            {"agent.model": None},
            {"GOAL_MODEL": " ", "LLM_MODEL": "l/a"},
            FILE,
            "file/a",
        ),
        (
            {},
            {"GOAL_MODEL": "", "LLM_MODEL": "l/a"},
            "objective='x'\nvalidator='y'",
            "l/a",
        ),
        (
            {},
            {"GOAL_MODEL": "e/a", "LLM_MODEL": "l/a"},
            "objective='x'\nvalidator='y'",
            "e/a",
        ),
    ],
)
def test_the_agents_model_comes_from_the_nearest_that_names_one(
    options: dict[str, Any], environ: dict[str, str], text: str, model: str
) -> None:
    assert load_goal_text(text, "goal.toml", options, environ).agent.model == model


@pytest.mark.parametrize(
    ("options", "environ", "judge"),
    [
        ({"judge.model": "o/j"}, {"GOAL_JUDGE": "e/j"}, "o/j"),
        ({}, {"GOAL_JUDGE": "e/j"}, "e/j"),
        ({}, {"LLM_MODEL": "l/j"}, "file/j"),
        ({"judge": "agent"}, {}, "agent"),
    ],
)
def test_the_judges_model_comes_from_the_nearest_that_names_one(
    options: dict[str, Any], environ: dict[str, str], judge: str
) -> None:
    assert load_goal_text(FILE, "goal.toml", options, environ).judge.model == judge


def test_a_judge_table_keeps_its_keys_under_a_model_from_elsewhere() -> None:
    text = "objective='x'\nmodel='a/b'\n[judge]\nminimum_score=0.5\n"
    judge = load_goal_text(text, "goal.toml", {}, {"GOAL_JUDGE": "e/j"}).judge
    assert (judge.model, judge.minimum_score) == ("e/j", 0.5)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("90", 90), ("1.5", 1.5), ("2h", 7200), (5, 5), ("inf", None)],
)
def test_a_number_on_the_command_line_is_text_and_counts_as_a_number(
    written: object, seconds: float | None
) -> None:
    assert resolve_goal({}, {**OPTIONS, "timeout": written}, {}).timeout == seconds


@pytest.mark.parametrize(
    ("written", "seconds"), [("0", 0), ("6h", 21_600), (0, 0), ("inf", None)]
)
def test_a_run_may_wait_from_no_time_on(written: object, seconds: float | None) -> None:
    assert resolve_goal({}, {**OPTIONS, "wait": written}, {}).wait == seconds


def test_a_bad_option_or_variable_is_named_by_its_own_name() -> None:
    options = {
        "timeout": "soon",
        "max_iterations": "0",
        "budget.cost_usd": "-1",
        "validators": ["a", ""],
        "agent.model": "scripted/",
    }
    assert refusal(
        options, {"GOAL_JUDGE": "a\tb", "GOAL_MODEL": " a/b"}, "objective='x'\nowner=1"
    ) == (
        "goal.toml:2:7  owner must be a string, not the number 1\n"
        "--max-iterations must be greater than or equal to 1, not 0; write inf to lift the limit\n"
        '--timeout "soon" is not a valid duration; write seconds, or "90s", "30m", "2h"\n'
        '--model "scripted/" names no file; write "scripted/replies.jsonl"\n'
        'GOAL_JUDGE "a\\tb" must be one line without control characters\n'
        "--cost must be greater than 0, not -1; write inf to lift the limit\n"
        "--validator is empty; write something, or remove it"
    )


def test_a_goal_without_a_file_is_checked_the_same_way() -> None:
    assert refusal({}, {}) == (
        'objective is missing; write objective = "...", or: goal run --objective\n'
        'neither an agent nor a model is named; write agent = "claude" (goal agents lists'
        ' all), or model = "provider/name" for the built-in agent, or give --agent or'
        " --model\n"
        "the goal has neither a validator nor a judge; "
        'write validator = "pytest -q" (or give --validator), or judge = "agent" (or give --judge)'
    )
    assert refusal(
        {**OPTIONS, "objective": "\udcff", "risk_class": "hihg", "timeot": 1}, {}
    ) == (
        'unknown key "timeot"; did you mean "timeout"?\n'
        "--objective contains bytes that are not UTF-8\n"
        "--risk-class must be 'low', 'medium', 'high' or 'critical', not \"hihg\""
    )
    assert refusal(
        {"objective": "x", "agent.model": "a/b", "judge.minimum_score": 1}, {}
    ) == (
        '[judge] has no model; write model = "provider/name" or "agent", give --judge, or set GOAL_JUDGE'
    )


def test_a_scripted_model_of_an_option_starts_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    goal = load_goal_text(
        FILE,
        "goal.toml",
        {"agent.model": "scripted/a"},
        {"GOAL_JUDGE": "scripted/j"},
        base=Path("/base"),
    )
    assert (goal.agent.model, goal.judge.model) == (
        f"scripted/{tmp_path.resolve()}/a",
        f"scripted/{tmp_path.resolve()}/j",
    )


def test_a_bad_workspace_of_the_file_does_not_matter_under_a_good_option(
    tmp_path: Path,
) -> None:
    goal = load_goal_text(
        FILE + "workspace.path='nope'",
        "goal.toml",
        {"workspace.path": str(tmp_path)},
        {},
    )
    assert goal.workspace.path == str(tmp_path.resolve())
    assert refusal({"workspace.path": "/nope"}, {}, FILE) == (
        '--workspace "/nope" does not exist; create the folder, or name another'
    )


def test_a_goal_that_only_tells_what_to_judge_need_not_be_runnable() -> None:
    goal = load_goal_text("objective='x'", "goal.toml", {}, {}, runnable=False)
    assert (goal.objective, goal.agent.model, goal.has_judge) == ("x", "", False)
    with pytest.raises(GoalFileError):
        load_goal_text("objective=''", "goal.toml", {}, {}, runnable=False)


def test_a_current_folder_that_is_gone_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(UsageError, match="does not exist any more"):
        resolve_goal({}, OPTIONS, {})


@given(
    st.dictionaries(
        st.sampled_from(
            [
                "objective",
                "timeout",
                "max_iterations",
                "agent.model",
                "judge",
                "validators",
                "workspace.path",
                "agent",
                "x.y",
                "",
            ]
        ),
        st.one_of(
            st.text(max_size=8),
            st.none(),
            st.integers(),
            st.lists(st.text(max_size=4), max_size=2),
            st.sampled_from(["9" * 5000]),
        ),
    ),
    st.dictionaries(
        st.sampled_from(["GOAL_MODEL", "GOAL_JUDGE", "LLM_MODEL"]), st.text(max_size=6)
    ),
)
def test_any_options_and_variables_give_a_goal_or_a_goal_file_error(
    options: dict[str, Any], environ: dict[str, str]
) -> None:
    problems: tuple[Problem, ...] = ()
    try:
        assert resolve_goal({}, options, environ).agent.model
    except GoalFileError as error:
        problems = error.problems
    assert all(problem.line == 0 for problem in problems)

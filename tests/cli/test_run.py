from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

import pytest

from goalrunner.cli.main import main
from goalrunner.core.errors import RecordError, UsageError
from goalrunner.core.outcome import GoalOutcome, GoalStatus, StopReason
from tests.support import told_run
from tests.support.recordings import recording
from tests.support.scripted_api import ScriptedApi
from tests.support.told_run import outcome

CLOSING = "complete   2 rounds · 3 min 12 s · 41,210 tokens · $0.21 (judge 6 %)\n"
PATH_LINE = "           /state/goal/runs/k3f9-make-parse/outcome.json\n"
INLINE = (
    "run",
    "--objective",
    "Make it.",
    "--validator",
    "true",
    "--model",
    "openai/gpt-5",
)


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def goal_file(workspace: Path) -> Path:
    path = workspace / "objective.toml"
    path.write_text(
        'objective = "Make it."\nvalidator = "pytest -q"\nmodel = "openai/gpt-5"\nmax_iterations = 3\n'
    )
    return path


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> ScriptedApi:
    return ScriptedApi([outcome()], told_run.two_rounds()).install(monkeypatch)


@pytest.mark.parametrize(
    ("ended", "code"),
    [
        (outcome(), 0),
        (outcome(GoalStatus.CAPPED, StopReason.MAX_ITERATIONS), 1),
        (outcome(GoalStatus.BLOCKED, StopReason.JUDGE_FAILED), 3),
        (outcome(GoalStatus.FAILED, StopReason.AUTHENTICATION), 4),
        (outcome(GoalStatus.CANCELLED, StopReason.INTERRUPTED, signal=2), 130),
        (outcome(GoalStatus.CANCELLED, StopReason.INTERRUPTED, signal=15), 143),
    ],
)
def test_the_exit_code_is_the_outcomes(
    goal_file: Path, monkeypatch: pytest.MonkeyPatch, ended: GoalOutcome, code: int
) -> None:
    ScriptedApi([ended]).install(monkeypatch)
    assert main(["run", str(goal_file)]) == code


def test_progress_and_the_end_go_to_stdout(
    goal_file: Path,
    api: ScriptedApi,
    own_home: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["run", "objective.toml"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith(
        "goal       Make parse() accept empty input.\nrun        k3f9-make-parse\n"
    )
    assert said.out.endswith(CLOSING + PATH_LINE)
    assert said.err == ""
    assert api.goals[0].max_iterations == 3
    assert api.homes == [own_home]
    assert api.recordings == [None]


def test_options_make_a_goal_without_a_file(workspace: Path, api: ScriptedApi) -> None:
    code = main(
        [
            *INLINE,
            *(
                "--validator",
                "ruff check",
                "--criterion",
                "one",
                "--criterion",
                "two",
                "--constraint",
                "keep",
            ),
            *(
                "--judge",
                "agent",
                "--max-iterations",
                "5",
                "--timeout",
                "30m",
                "--tokens",
                "1000",
                "--cost",
                "1.5",
            ),
            *("--record", "words.jsonl"),
        ]
    )
    goal = api.goals[0]
    assert code == 0
    assert goal.objective == "Make it."
    assert [spec.run for spec in goal.validators] == ["true", "ruff check"]
    assert (goal.success_criteria, goal.constraints) == (("one", "two"), ("keep",))
    assert (goal.agent.model, goal.judge.model) == ("openai/gpt-5", "agent")
    assert (goal.max_iterations, goal.timeout) == (5, 1_800)
    assert (goal.budget.tokens, goal.budget.cost_usd) == (1_000, 1.5)
    assert goal.workspace.path == str(workspace.resolve())
    assert api.recordings == [Path("words.jsonl")]


def test_options_win_over_environment_and_file(
    goal_file: Path, api: ScriptedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOAL_MODEL", "openai/from-environment")
    api.answers.append(outcome())
    (goal_file.parent / "sub").mkdir()
    main(
        [
            "run",
            str(goal_file),
            "--max-iterations",
            "inf",
            "--objective",
            "Other.",
            "--workspace",
            "sub",
        ]
    )
    main(["run", str(goal_file), "--model", "openai/from-option"])
    assert (api.goals[0].objective, api.goals[0].max_iterations) == ("Other.", None)
    assert api.goals[0].workspace.path == str((goal_file.parent / "sub").resolve())
    assert [goal.agent.model for goal in api.goals] == [
        "openai/from-environment",
        "openai/from-option",
    ]


def test_json_is_alone_on_stdout(
    goal_file: Path, api: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(goal_file), "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out) == outcome().model_dump(mode="json")
    assert said.err.endswith(CLOSING + PATH_LINE)


def test_quiet_leaves_the_last_lines(
    goal_file: Path, api: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["run", str(goal_file), "--quiet"])
    assert capsys.readouterr().out == CLOSING + PATH_LINE


def test_a_copy_of_the_outcome_is_put_where_it_is_wanted(
    goal_file: Path, api: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(goal_file), "-q", "--output", "out.json"]) == 0
    assert json.loads(
        (goal_file.parent / "out.json").read_text()
    ) == outcome().model_dump(mode="json")
    assert capsys.readouterr().out == f"{CLOSING}{PATH_LINE}           out.json\n"


def test_a_copy_that_fails_in_the_end_is_no_success(
    goal_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Vanishing(ScriptedApi):
        async def arun(self, *arguments: object, **options: object) -> GoalOutcome:
            (goal_file.parent / "sub").rmdir()
            return outcome()

    (goal_file.parent / "sub").mkdir()
    Vanishing([]).install(monkeypatch)
    assert main(["run", str(goal_file), "--output", "sub/out.json"]) == 4
    said = capsys.readouterr()
    assert said.out == CLOSING + PATH_LINE
    assert (
        said.err
        == "Error: --output sub/out.json could not be written: No such file or directory\n"
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["--output", "objective.toml"],
            "--output objective.toml is the goal file; the outcome would replace it",
        ),
        (["--output", "."], "--output .: is a directory"),
    ],
)
def test_what_would_be_written_over_is_refused_before_the_run(
    goal_file: Path,
    api: ScriptedApi,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    said: str,
) -> None:
    (goal_file.parent / "r.jsonl").write_text('{"text": "done"}\n')
    assert main(["run", str(goal_file), "--model", "scripted/r.jsonl", *options]) == 2
    assert capsys.readouterr().err.splitlines()[0] == f"Error: {said}"
    assert api.goals == []


def test_a_failure_of_the_records_hands_over_what_is_known(
    goal_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error = RecordError(
        "cannot write /state/outcome.json: No space left on device", "free some space"
    )
    error.outcome = outcome()
    ScriptedApi([error]).install(monkeypatch)
    assert main(["run", str(goal_file), "--json", "--output", "out.json"]) == 4
    said = capsys.readouterr()
    assert json.loads(said.out) == json.loads(
        (goal_file.parent / "out.json").read_text()
    )
    assert said.err == f"{CLOSING}           out.json\nError: {error}\n"


def test_a_run_that_failed_has_one_error(
    goal_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error = RecordError("cannot write /state/summary.json: No space left on device")
    failed = {"status": GoalStatus.FAILED, "message": "no snapshot: No space left"}
    error.outcome = outcome().model_copy(update=failed)
    ScriptedApi([error]).install(monkeypatch)
    assert main(["run", str(goal_file)]) == 4
    said = capsys.readouterr()
    assert "no snapshot: No space left" in said.out
    assert "Error:" not in said.err


def test_a_dry_run_prints_the_goal_and_spends_nothing(
    goal_file: Path,
    api: ScriptedApi,
    own_home: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["run", str(goal_file), "--dry-run", "--timeout", "90"]) == 0
    assert capsys.readouterr().out == dedent(f"""\
        goal       Make it.
        workspace  {goal_file.parent.resolve()} · no git
        agent      openai/gpt-5
        judge      none; the validators decide
        limits     3 rounds · 1 min 30 s · no budget
        checks     pytest: pytest -q · 10 min
        checked in overlay · existing tests and their configuration are protected
        protected  {goal_file.name}
        dry run    Nothing was run or written.
        """)
    assert api.goals == []
    assert len(api.checked) == 1
    assert list(own_home.iterdir()) == []


def test_a_dry_run_in_json_is_the_goal(
    goal_file: Path, api: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(goal_file), "--dry-run", "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert (value["objective"], value["max_iterations"]) == ("Make it.", 3)


def test_strict_adds_the_labels_that_are_reviewed(
    goal_file: Path, api: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    goal_file.write_text(f'{goal_file.read_text()}\n[approvals]\nlabels = ["flaky"]\n')
    assert main(["run", str(goal_file), "--strict", "--dry-run", "--json"]) == 0
    labels = json.loads(capsys.readouterr().out)["approvals"]["labels"]
    assert labels == [
        "flaky",
        "rests on",
        "tests removed",
        "checks differ",
        "suppressions added",
        "nothing changed",
        "checks passed before the change",
    ]


def test_a_dry_run_finds_what_the_parts_refuse(
    goal_file: Path,
    api: ScriptedApi,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refuse(goal: object, home: object) -> None:
        raise UsageError("no price for this model", "--tokens")

    monkeypatch.setattr("goalrunner.app.doctor.dry_run", refuse)
    assert main(["run", str(goal_file), "--dry-run"]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "Error: no price for this model\n--tokens\n")


def test_without_a_goal_it_says_what_to_type(
    workspace: Path, api: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run"]) == 2
    assert capsys.readouterr().err == (
        "Error: there is no goal: no goal.toml and no [tool.goal] in pyproject.toml, here or above in the repository\n"
        'goal init writes one; or goal run "what to do"; goal demo shows a run\n'
    )


def test_mistakes_in_a_goal_file_are_all_said_with_their_place(
    workspace: Path, api: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    (workspace / "bad.toml").write_text(
        'objective = "x"\nmodel = "a/b"\nvalidator = "true"\nmax_iteration = 3\ntimeout = "soon"\n'
    )
    assert main(["run", "bad.toml"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert (
        lines[0]
        == 'Error: bad.toml:4:1  unknown key "max_iteration"; did you mean "max_iterations"?'
    )
    assert lines[1].startswith("Error: bad.toml:5:11  timeout")
    assert api.goals == []


def test_a_recording_says_what_it_does_not_contain_and_a_dry_run_makes_none(
    workspace: Path, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (workspace / "goal.toml").write_text(
        'objective = "x"\nvalidator = "true"\n[agent]\nuse = "command"\ncommand = "true"\n'
    )
    for more in ([], ["--dry-run"]):
        assert main(["run", "--record", "words.jsonl", *more]) == 2
        said = capsys.readouterr().err
        assert (
            "--record has nothing to record: command calls its own model, and the goal has no judge"
            in said
        )
        assert "add a judge (--judge NAME)" in said
    judge = recording(workspace / "judge.jsonl")
    assert main(["run", "--record", "words.jsonl", "--judge", judge, "--dry-run"]) == 0
    assert (
        "--record keeps the replies of the models that goal calls, not those of command\n"
        in capsys.readouterr().err
    )
    assert not (workspace / "words.jsonl").exists()
    assert main(["run", "--record", "x" * 300, "--judge", judge]) == 2
    assert "the recording cannot be written" in capsys.readouterr().err

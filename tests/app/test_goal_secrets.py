"""Secrets of a goal file that are read again when a run is resumed."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from goalrunner.app.goal_models import goal_redactor
from goalrunner.app.stored_goal import secret_notes, with_secrets
from goalrunner.core.errors import UsageError
from goalrunner.goalfile.dumping import dump_goal
from goalrunner.goalfile.loading import load_goal
from tests.support.tokens import some

TOKEN = "ghp_" + some(36)
COMMAND = 'validator = "echo login {} && python check.py"'
ADDRESS = 'validator = "curl https://me:{}@status.example/ok"'
VARIABLE = '[[validators]]\nname = "v"\nrun = "python check.py $API_TOKEN"\nenv = {{ API_TOKEN = "{}" }}'
JUDGE = 'validator = "true"\n[judge]\nmodel = "openai/gpt-5-mini"\napi_base = "https://me:{}@models.example/v1"'
AGENT = 'validator = "true"\nagent = "mine"\n[agents.mine]\nargv = ["sh", "-c", "work {} && echo"]'
VALUE = 'validator = "true"\n[agent]\nenv = {{ DEPLOY_PASSWORD = "{}" }}'


def frozen(folder: Path, text: str, secret: str) -> tuple[str, Path]:
    """Return the text that is kept with a run of this goal, and the goal file."""
    path = folder / "goal.toml"
    path.write_text('objective = "x"\n' + text.format(secret))
    goal = load_goal(path, {}, {}, runnable=False)
    kept = dump_goal(goal, goal_redactor(goal, {}, ()).text)
    assert secret not in kept
    return kept, path


def resumed(folder: Path, text: str, now: str, before: str = TOKEN) -> dict[str, Any]:
    kept, path = frozen(folder, text, before)
    path.write_text('objective = "x"\n' + text.format(now))
    return with_secrets(tomllib.loads(kept), path, {})


@pytest.mark.parametrize("text", [COMMAND, ADDRESS, VARIABLE, JUDGE, AGENT, VALUE])
@pytest.mark.parametrize("secret", [TOKEN, "ghp_" + some(36)[::-1]])
def test_a_secret_that_is_unchanged_or_renewed_is_taken(
    tmp_path: Path, text: str, secret: str
) -> None:
    assert secret in str(resumed(tmp_path, text, secret))


@pytest.mark.parametrize("secret", ["hunter3.renewed-%2B", "c2VjcmV0LXNlY3JldA=="])
@pytest.mark.parametrize("text", [VARIABLE, JUDGE, VALUE])
def test_a_value_by_name_may_be_any_word(
    tmp_path: Path, text: str, secret: str
) -> None:
    assert secret in str(resumed(tmp_path, text, secret, before="hunter2-hunter2"))


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        *(
            (COMMAND, attack)
            for attack in (
                "#", "#renewed-token", "$HOME-renewed", "${IFS}renewed", "!renewed-token", "*renewed-token", "~/renewed",
                "{renewed,token}", "[renewed-token]", "renewed?token", "renewed^token", "renewed;true", "renewed|true",
                "renewed&true", "renewed>token", "renewed`true`", "renewed(true)", "renewed token", "renewed\\n# token",
                "'renewed", "--renewed-token", "@renewed-token", "=renewed-token", "short", "renewed\u00a0token",
            )
        ),
        (AGENT, "#"),
        (ADDRESS, "renewed@evil.example/"),
        (ADDRESS, "renewed/../token"),
        (JUDGE, "renewed@evil.example/"),
        (JUDGE, "8000/"),
        (JUDGE, "renewed?token"),
        (VARIABLE, "renewed token"),
        (VARIABLE, "--collect-only"),
        (VARIABLE, "*"),
    ],
)  # fmt: skip
def test_what_could_change_a_command_is_refused_with_its_place(
    tmp_path: Path, text: str, secret: str
) -> None:
    with pytest.raises(UsageError) as refusal:
        resumed(tmp_path, text, secret)
    assert "was changed after the run began" in refusal.value.message
    assert str(tmp_path / "goal.toml") in refusal.value.message
    assert refusal.value.hint == "put it back, or start a new run: goal run GOAL_FILE"


@pytest.mark.parametrize("secret", ["hunter two & three #4", "p$ss!w*rd"])
def test_a_variable_of_the_agent_may_be_any_text(tmp_path: Path, secret: str) -> None:
    assert secret in str(resumed(tmp_path, VALUE, secret))


def test_a_start_warns_of_a_literal_secret(tmp_path: Path) -> None:
    kept, path = frozen(tmp_path, COMMAND, TOKEN)
    (note,) = secret_notes(kept, path)
    assert (
        f"validators[0].run: a secret is not stored with the run, and goal resume reads it from {path} again"
        in note
    )
    assert secret_notes('objective = "x"', path) == ()

"""Secrets of a goal file that are read again when a run is resumed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from goalrunner.app.goal_secrets import secret_notes, with_secrets
from goalrunner.core.errors import UsageError
from goalrunner.goalfile import dump_goal, load_goal
from tests.support.tokens import some

MARK = "[redacted:github token]"
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
    kept = dump_goal(load_goal(path, {}, {}, runnable=False))
    assert secret in kept
    return kept.replace(secret, MARK), path


def resumed(folder: Path, text: str, now: str, before: str = TOKEN) -> dict[str, Any]:
    kept, path = frozen(folder, text, before)
    path.write_text('objective = "x"\n' + text.format(now))
    return with_secrets(kept, folder / "kept.toml", path, {})


@pytest.mark.parametrize("text", [COMMAND, ADDRESS, VARIABLE, JUDGE, AGENT, VALUE])
@pytest.mark.parametrize("secret", [TOKEN, "ghp_" + some(36)[::-1], "hunter3.renewed-%2B", "c2VjcmV0LXNlY3JldA=="])
def test_a_secret_that_is_unchanged_or_renewed_is_taken(tmp_path: Path, text: str, secret: str) -> None:
    assert secret in str(resumed(tmp_path, text, secret))


@pytest.mark.parametrize("secret", ["abc/def+ghi==", "user:renewed@host", "/+a,b_c-d.e="])
def test_a_token_of_any_plain_characters_is_taken(tmp_path: Path, secret: str) -> None:
    assert secret in str(resumed(tmp_path, COMMAND, secret))


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
def test_what_could_change_a_command_is_refused_with_its_place(tmp_path: Path, text: str, secret: str) -> None:
    with pytest.raises(UsageError) as refusal:
        resumed(tmp_path, text, secret)
    assert "was changed after the run began" in refusal.value.message
    assert str(tmp_path / "goal.toml") in refusal.value.message
    assert refusal.value.hint == "put it back, or start a new run: goal run GOAL_FILE"


def test_a_refused_word_in_a_command_names_what_is_allowed(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"validators\[0\].run .*or its secret is not a plain word"):
        resumed(tmp_path, COMMAND, "#")


@pytest.mark.parametrize("secret", ["hunter two & three #4", "p$ss!w*rd"])
def test_a_variable_of_the_agent_may_be_any_text(tmp_path: Path, secret: str) -> None:
    assert secret in str(resumed(tmp_path, VALUE, secret))


@pytest.mark.parametrize(("secret", "again"), [(TOKEN, True), ("p$ss!w*rd", False)])
def test_a_start_warns_if_its_secret_would_be_refused_later(tmp_path: Path, secret: str, again: bool) -> None:
    kept, path = frozen(tmp_path, COMMAND, secret)
    (note,) = secret_notes(kept, load_goal(path, {}, {}, runnable=False), path, {})
    assert ("this run cannot be resumed" not in note) is again

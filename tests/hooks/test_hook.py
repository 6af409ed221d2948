"""`goal hook install` and `uninstall`: the setting of Claude Code, and the rest of its file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from goalrunner.cli.main import main

OURS = {"hooks": [{"type": "command", "command": "goal hook claude", "timeout": 3600}]}

WRITTEN_BY_HAND = """\
{
    "permissions": {"allow": ["Bash(npm test:*)", "Read(~/.zshrc)"], "deny": []},

    "model":"opus",
    "hooks": {
        "Stop": [ { "hooks": [ {"type": "command", "command": "say done \\u2713"} ] } ],
        "PostToolUse": [
            {
                "matcher": "Edit|Write",
                "hooks": [{"type": "command", "command": "prettier --write"}]
            }
        ]
    },
    "limit": 1.50
}
"""

FILES = {
    "by hand": WRITTEN_BY_HAND,
    "no line break at the end": '{\n  "model": "opus"\n}',
    "one line": '{"model":"opus","hooks":{}}',
    "tabs": '{\n\t"hooks": {\n\t\t"Stop": []\n\t}\n}\n',
    "windows": '{\r\n  "model": "opus"\r\n}\r\n',
    "empty object": "{}\n",
    "empty hooks": '{\n  "hooks": {}\n}\n',
    "another key of that name inside": '{\n  "env": {"hooks": {"Stop": 1}}\n}\n',
}


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The settings of the current folder, which do not exist yet; `goal` is on PATH."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "goal").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    monkeypatch.chdir(tmp_path)
    return tmp_path / ".claude" / "settings.json"


def install(*options: str) -> int:
    """The exit code of installing it without a question."""
    return main(["hook", "install", "claude", "--yes", *options])


def entries(path: Path, event: str) -> Sequence[object]:
    """The entries of an event."""
    hooks: Sequence[object] = json.loads(path.read_text())["hooks"][event]
    return hooks


def test_a_file_that_did_not_exist_is_made_and_removed_again(
    settings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert install() == 0
    assert json.loads(settings.read_text()) == {
        "hooks": {"UserPromptSubmit": [OURS], "Stop": [OURS]}
    }
    assert '+            "command": "goal hook claude"' in capsys.readouterr().out
    assert main(["hook", "uninstall", "claude", "--yes"]) == 0
    assert not settings.exists()


@pytest.mark.parametrize("text", FILES.values(), ids=FILES)
def test_the_rest_of_the_file_is_kept(text: str, settings: Path) -> None:
    settings.parent.mkdir()
    settings.write_bytes(text.encode())
    before = json.loads(text)
    assert install() == 0
    after = json.loads(settings.read_text())
    assert entries(settings, "Stop") == [*before.get("hooks", {}).get("Stop", []), OURS]
    assert {**after, "hooks": 0} == {**before, "hooks": 0}
    installed = settings.read_bytes()
    assert install() == 0
    assert settings.read_bytes() == installed
    assert main(["hook", "uninstall", "claude", "--yes"]) == 0
    assert json.loads(
        settings.read_text() if settings.exists() else "{}"
    ) == without_empty_hooks(before)
    if text == WRITTEN_BY_HAND:
        indented = json.dumps(before, indent=4, ensure_ascii=False)
        assert settings.read_text() == f"{indented}\n"


def without_empty_hooks(table: dict[str, object]) -> dict[str, object]:
    """What is left of settings without entries: empty lists of hooks are removed with ours."""
    hooks = table.get("hooks")
    full = (
        {name: held for name, held in hooks.items() if held}
        if isinstance(hooks, dict)
        else {}
    )
    rest = {name: value for name, value in table.items() if name != "hooks"}
    return {**rest, "hooks": full} if full else rest


def test_an_entry_of_before_is_replaced(settings: Path) -> None:
    (settings.parents[1] / "other goal.toml").touch()
    assert install() == 0
    assert install("--goal", "other goal.toml") == 0
    (entry,) = entries(settings, "Stop")
    assert isinstance(entry, dict)
    assert (
        entry["hooks"][0]["command"]
        == f"goal hook claude --goal '{settings.parents[1]}/other goal.toml'"
    )
    assert main(["hook", "uninstall", "claude", "--yes"]) == 0
    assert not settings.exists()


@pytest.mark.parametrize(
    "text",
    ['{"hooks": {', '{"hooks": []}', '{"hooks": {"Stop": {}}}', "[]", "{} // a remark"],
)
def test_a_file_that_cannot_be_edited_is_left_alone(
    text: str, settings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.parent.mkdir()
    settings.write_text(text)
    assert install() == 2
    assert ".claude/settings.json is not changed" in capsys.readouterr().err
    assert settings.read_text() == text


def test_nothing_is_written_without_a_yes(
    settings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["hook", "install", "claude"]) == 2
    assert "add --yes" in capsys.readouterr().err
    assert not settings.exists()


def test_local_settings_are_a_file_of_their_own(settings: Path) -> None:
    assert install("--local") == 0
    assert not settings.exists()
    assert entries(settings.with_name("settings.local.json"), "Stop") == [OURS]


def test_a_link_to_the_settings_stays(settings: Path, tmp_path: Path) -> None:
    settings.parent.mkdir()
    settings.symlink_to(tmp_path / "dotfiles.json")
    assert install() == 0
    assert main(["hook", "uninstall", "claude", "--yes"]) == 0
    assert settings.is_symlink()
    assert not (tmp_path / "dotfiles.json").exists()


@pytest.mark.parametrize(
    "words",
    [["install"], ["install", "codex"], ["claude", "install"], ["remove", "claude"]],
)
def test_unknown_words_are_refused_with_the_commands(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["hook", *words, "--yes"]) == 2
    assert "goal hook install claude" in capsys.readouterr().err


def test_a_file_of_nothing_but_space_is_like_none(settings: Path) -> None:
    settings.parent.mkdir()
    settings.write_text("  \n")
    assert install() == 0
    assert json.loads(settings.read_text()).keys() == {"hooks"}
    assert main(["hook", "uninstall", "claude", "--yes"]) == 0
    assert not settings.exists()

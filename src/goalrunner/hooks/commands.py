"""The command `goal hook`, which installs, removes and answers hooks of Claude Code."""

from __future__ import annotations

import difflib
import os
import re
import shlex
import shutil
import sys
from json import dumps, loads
from pathlib import Path
from typing import Annotated, Any

from goalrunner.cli import dialog, goals, options, output, runs
from goalrunner.cli.options import File, argument, flag, option
from goalrunner.core.errors import GoalError, UsageError, os_errors
from goalrunner.records.files import write_whole
from goalrunner.reports.terminal_text import printable

# At the first event the start of the workspace is recorded; at the second one the
# agent's work is checked.
_EVENTS = ("UserPromptSubmit", "Stop")
_OUR_COMMAND = re.compile(r"(?:^|[/\s'\"])(?:goal|goalrunner)['\"]? hook claude\b")
# Seconds that Claude Code waits for a check; its default is 600, and shorter for
# prompts.
_TIMEOUT = 3_600


def hook(
    action: Annotated[
        str, argument("install|uninstall", "Write or remove the hook in the settings.")
    ],
    agent: Annotated[str, argument("claude", "The agent.")] = "",
    goal: Annotated[
        File, option("FILE", "The goal; default: that of the project.", "--goal")
    ] = None,
    local: Annotated[
        bool, flag("--local", "Use .claude/settings.local.json of this folder.")
    ] = False,
    yes: options.Yes = False,
) -> int:
    """Check the sessions of Claude Code before they stop.

    A stop is blocked until the goal is verified, within the limits of the goal.

    The agent calls `goal hook claude`, with an event as JSON on stdin. `install` writes
    this command into .claude/settings.json of the folder, and `uninstall` removes it;
    both show the change first. The goal is goal.toml, or [tool.goal] of pyproject.toml,
    in the folder of the session or above it in its repository.
    """
    if (action, agent) == ("claude", ""):
        return _answer(goal)
    if action not in ("install", "uninstall") or agent != "claude":
        words = " ".join(filter(None, (action, agent)))
        raise UsageError(
            f"goal hook {words}: unknown",
            "goal hook install claude, or goal hook uninstall claude",
        )
    if action == "install" and goal is not None and not runs.is_file(goal):
        raise UsageError(
            f"--goal {goal}: there is no such file", "goal init writes a goal file"
        )
    path = Path(".claude", "settings.local.json" if local else "settings.json")
    return _change_settings(path, _command(goal) if action == "install" else "", yes)


def _change_settings(path: Path, command: str, yes: bool) -> int:
    """Show the change of a settings file, ask, and write it. Return the exit code.

    Without a command, the hook is removed. `yes` writes without a question.
    """
    text, table = _read(path)
    new_table = _changed(table, command)
    if new_table == table:
        output.say(f"{path}: nothing to change\n")
        return 0
    new_text = _in_the_style_of(text, new_table)
    diff = difflib.unified_diff(
        text.splitlines(), new_text.splitlines(), str(path), str(path), lineterm=""
    )
    output.say(printable("".join(f"{line}\n" for line in diff)))
    if not yes:
        question = f"Write {path}? [y/N]"
        if not dialog.confirmed(question, "goal hook asks before it writes"):
            return 1
    # A link to the settings stays a link.
    _write(path.resolve(), new_text)
    return 0


def _in_the_style_of(text: str, table: dict[str, Any]) -> str:
    """Return settings as JSON with the indentation of a text, or "" without any."""
    if not table:
        return ""
    indentation = re.search(r"\n([ \t]+)\S", text)
    indent: int | str = indentation[1] if indentation else 2
    return dumps(table, indent=indent, ensure_ascii=False) + "\n"


def _command(goal: Path | None) -> str:
    """Return the command that Claude Code calls."""
    program = "goal"
    # Without `goal` on PATH, the program that runs now is called by its path.
    this_program = str(Path(sys.argv[0]).absolute())
    if not shutil.which("goal") and os.access(this_program, os.X_OK):
        program = this_program
    words = [program, "hook", "claude"]
    if goal is not None:
        words += ["--goal", str(goal.absolute())]
    return shlex.join(words)


def _read(path: Path) -> tuple[str, dict[str, Any]]:
    """Return the text of a settings file, and its content.

    Raise UsageError if it cannot be edited.
    """
    hint = "correct it, or use the other file: --local"
    try:
        text = path.read_text("utf-8") if path.exists() else ""
        table = loads(text.strip() or "{}")
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{path} is not changed, because it cannot be read as JSON: {error}", hint
        ) from None
    hooks = table.get("hooks", {}) if isinstance(table, dict) else None
    if not isinstance(hooks, dict) or not all(
        isinstance(entries, list) for entries in hooks.values()
    ):
        raise UsageError(
            f'{path} is not changed: "hooks" is not an object of lists in it', hint
        )
    return text, table


def _changed(table: dict[str, Any], command: str) -> dict[str, Any]:
    """Return settings without our earlier hook, and with the command.

    No hook is added for an empty command. Events without hooks are left out.
    """
    hooks: dict[str, list[Any]] = {}
    for event, entries in table.get("hooks", {}).items():
        others = [entry for entry in entries if not _is_ours(entry)]
        if others:
            hooks[event] = others
    if command:
        call = {"type": "command", "command": command, "timeout": _TIMEOUT}
        entry = {"hooks": [call]}
        for event in _EVENTS:
            hooks.setdefault(event, []).append(entry)
    changed = {**table, "hooks": hooks}
    if not hooks:
        del changed["hooks"]
    return changed


def _is_ours(entry: Any) -> bool:
    hooks = entry.get("hooks") if isinstance(entry, dict) else None
    if not isinstance(hooks, list):
        return False
    commands = [hook.get("command") for hook in hooks if isinstance(hook, dict)]
    # An entry with commands of others as well is theirs.
    return bool(commands) and all(map(_is_our_command, commands))


def _is_our_command(command: Any) -> bool:
    return isinstance(command, str) and bool(_OUR_COMMAND.search(command))


def _write(path: Path, text: str) -> None:
    """Write a text; remove the file if it is empty. Raise UsageError."""
    with os_errors(f"{path} cannot be written", "", UsageError):
        if text:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, text.encode(), mode=0o666)
        else:
            path.unlink()


def _answer(goal: Path | None) -> int:
    """Answer the event on stdin. The exit code is always 0."""
    # With the code 2, Claude Code would block the stop for ever.
    if sys.stdin.isatty():
        raise UsageError(
            "goal hook claude reads the event of a hook on stdin, which is a terminal",
            "goal hook install claude; to try it: "
            'echo \'{"session_id": "1"}\' | goal hook claude',
        )
    from goalrunner.hooks.stop_hook import HookEvent, answer_hook
    from goalrunner.system.launch_tags import VARIABLE

    # The agent works for a run, which checks it itself.
    if VARIABLE in os.environ:
        return 0
    try:
        event = HookEvent.parsed(sys.stdin.buffer.read())
        # The agent may have changed its own folder.
        os.chdir(os.environ.get("CLAUDE_PROJECT_DIR") or event.cwd or ".")
        file = goal or goals.of_folder()
    # ValueError: the name of a folder with a NUL.
    except (GoalError, OSError, ValueError) as error:
        reply = {"systemMessage": f"goal did not check this session: {error}"}
    else:
        reply = answer_hook(event, file, runs.home(), os.environ)
    if reply:
        output.say(dumps(reply) + "\n")
    return 0

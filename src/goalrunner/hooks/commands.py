"""`goal hook`: write the hook into the settings of Claude Code, remove it, and answer its events."""

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

from goalrunner.cli import goals, options, output, runs
from goalrunner.cli.options import File, argument, flag, option
from goalrunner.core.errors import GoalError, UsageError, os_errors
from goalrunner.records.files import write_whole
from goalrunner.reports.layout import printable

_EVENTS = ("UserPromptSubmit", "Stop")
"""At the first event the start of the workspace is recorded; at the second one the agent's work is checked."""
_OURS = re.compile(r"(?:^|[/\s'\"])(?:goal|goalrunner)['\"]? hook claude\b")
_TIMEOUT = 3_600  # seconds that Claude Code waits for a check; its default is 600, and shorter for prompts


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

    The agent calls `goal hook claude`, with an event as JSON on stdin. `install` writes this command into
    .claude/settings.json of the folder, and `uninstall` removes it; both show the change first. The goal is goal.toml, or
    [tool.goal] of pyproject.toml, in the folder of the session or above it in its repository.
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
    text, table = _read(path)
    new = _changed(table, _command(goal) if action == "install" else "")
    if new == table:
        output.say(f"{path}: nothing to change\n")
        return 0
    indent = re.search(r"\n([ \t]+)\S", text)
    written = (
        dumps(new, indent=indent[1] if indent else 2, ensure_ascii=False) + "\n"
        if new
        else ""
    )
    diff = difflib.unified_diff(
        text.splitlines(), written.splitlines(), str(path), str(path), lineterm=""
    )
    output.say(printable("".join(f"{line}\n" for line in diff)))
    if not (
        yes
        or output.confirmed(f"Write {path}? [y/N]", "goal hook asks before it writes")
    ):
        return 1
    _write(path.resolve(), written)
    return 0


def _command(goal: Path | None) -> str:
    """Return the command that Claude Code calls."""
    called = str(Path(sys.argv[0]).absolute())
    program = (
        "goal" if shutil.which("goal") or not os.access(called, os.X_OK) else called
    )
    return shlex.join(
        [program, "hook", "claude", *(["--goal", str(goal.absolute())] if goal else [])]
    )


def _read(path: Path) -> tuple[str, dict[str, Any]]:
    """Return the text of a settings file, and its content. Raise UsageError if it cannot be edited."""
    hint = "correct it, or use the other file: --local"
    try:
        text = path.read_text("utf-8") if path.exists() else ""
        table = loads(text.strip() or "{}")
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{path} is not changed, because it cannot be read as JSON: {error}", hint
        ) from None
    hooks = table.get("hooks", {}) if isinstance(table, dict) else None
    if not isinstance(hooks, dict) or any(
        not isinstance(entries, list) for entries in hooks.values()
    ):
        raise UsageError(
            f'{path} is not changed: "hooks" is not an object of lists in it', hint
        )
    return text, table


def _changed(table: dict[str, Any], command: str) -> dict[str, Any]:
    """Return settings without our earlier hook and without empty lists, and with the command, if it is not empty."""
    hooks: dict[str, list[Any]] = {}
    for event, entries in table.get("hooks", {}).items():
        others = [entry for entry in entries if not _is_ours(entry)]
        if others:
            hooks[event] = others
    if command:
        entry = {
            "hooks": [{"type": "command", "command": command, "timeout": _TIMEOUT}]
        }
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
    return bool(commands) and all(
        isinstance(command, str) and _OURS.search(command) for command in commands
    )


def _write(path: Path, text: str) -> None:
    """Write a text; remove the file if it is empty. Raise UsageError."""
    with os_errors(f"{path} cannot be written", "", UsageError):
        if text:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, text.encode(), mode=0o666)
        else:
            path.unlink()


def _answer(goal: Path | None) -> int:
    """Answer the event on stdin. The code is always 0: with 2, Claude Code would block the stop for ever."""
    if sys.stdin.isatty():
        hint = 'goal hook install claude; to try it: echo \'{"session_id": "1"}\' | goal hook claude'
        raise UsageError(
            "goal hook claude reads the event of a hook on stdin, which is a terminal",
            hint,
        )
    from goalrunner.hooks.stop_hook import HookEvent, answer_hook
    from goalrunner.system.launch_tags import VARIABLE

    if VARIABLE in os.environ:  # the agent works for a run, which checks it itself
        return 0
    try:
        event = HookEvent.parsed(sys.stdin.buffer.read())
        # The agent may have changed its own folder.
        os.chdir(os.environ.get("CLAUDE_PROJECT_DIR") or event.cwd or ".")
        file = goal or goals.of_folder()
    except (GoalError, OSError, ValueError) as error:  # a folder's name with a NUL
        found = {"systemMessage": f"goal did not check this session: {error}"}
    else:
        found = answer_hook(event, file, runs.home(), os.environ)
    if found:
        output.say(dumps(found) + "\n")
    return 0

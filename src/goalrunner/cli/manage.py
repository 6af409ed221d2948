"""`goal agents`, `doctor`, `hook`, `memory`, `promote` and `forget`."""

from __future__ import annotations

import difflib
import os
import re
import shlex
import shutil
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from json import dumps, loads
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from goalrunner.cli import goals, main, options, output, runs
from goalrunner.cli.options import File, Text, argument, flag, option
from goalrunner.core.errors import ExitCode, GoalError, UsageError, os_errors
from goalrunner.reports.layout import clean

_Kind = Literal["event", "fact", "preference", "policy_reference"]
_Sensitivity = Literal["low", "medium", "high"]
_KINDS, _LEVELS = get_args(_Kind), get_args(_Sensitivity)
_EVENTS = ("UserPromptSubmit", "Stop")
"""At the first event the start of the workspace is recorded; at the second one the agent's work is checked."""
_OURS = re.compile(r"(?:^|[/\s'\"])(?:goal|goalrunner)['\"]? hook claude\b")
_TIMEOUT = 3_600  # seconds that Claude Code waits for a check; its default is 600, and shorter for prompts

GoalFile = Annotated[File, option("FILE", "Use [agents] and [agent] of this goal file.", "--goal")]


def agents(goal: GoalFile = None, json: options.Json = False) -> int:
    """List the agents: what is installed, and what each can do.

    Lists the built-in agents, those of the folder ~/.config/goal/agents, and with --goal those of a goal file. The exit code
    is 2 if a file of that folder is invalid.
    """
    from goalrunner.agents.external_agents import BUILT_IN, registered_names, user_files
    from goalrunner.app.agents import CHAT_FACTS, Origin, survey
    from goalrunner.goalfile.agents import Known
    from goalrunner.reports.tables import agents_text

    files = user_files(os.environ)
    own = goals.resolved(goal, {}).agents if goal is not None else {}
    known = Known(own, files)
    origins: dict[str, Origin] = {
        **dict.fromkeys(BUILT_IN, "built in"),
        **dict.fromkeys(registered_names(), "installed"),
        **dict.fromkeys(files, "user"),
        **{name: "goal file" for name in own if name not in files},
    }
    presets, errors = {}, []
    for name in sorted(origins):
        try:
            presets[name] = known.preset(name)
        except UsageError as problem:  # in the user's files and in registered classes
            errors.append(problem)
    facts = (CHAT_FACTS, *survey(presets, origins, os.environ))
    value = [{**asdict(one), "installed": one.installed} for one in facts]
    output.say(value if json else agents_text(facts, columns=output.columns()))
    for error in errors:
        output.complain(main.error_text(error))
    return int(errors[0].exit_code) if errors else 0


def doctor(
    agent: Annotated[Text, argument("AGENT", "Default: GOAL_AGENT, or the goal's.", options.agent_names)] = None,
    goal: GoalFile = None,
    try_: Annotated[bool, flag("--try", "Also run one real round in a temporary folder, which costs tokens.")] = False,
    json: options.Json = False,
) -> int:
    """Check whether an agent can be used on this machine.

    Checks the program, its version, key or login, git and the sandbox, and prints what to type. No model is called,
    except with --try: then the agent creates a file in a temporary folder, with the configured model, and the usage is
    printed. The exit code is 0 if the agent can be used, else 4.
    """
    from goalrunner.app.doctor import examine
    from goalrunner.reports.tables import diagnosis_lines, diagnosis_value

    target = goals.resolved(goal, {"objective": None if goal else "doctor", "agent.use": agent})
    diagnosis = examine(target, os.environ, with_round=try_)
    output.say(diagnosis_value(diagnosis) if json else output.laid_out(diagnosis_lines(diagnosis)))
    return int(ExitCode.COMPLETE if diagnosis.usable else ExitCode.FAILED)


def hook(
    action: Annotated[str, argument("install|uninstall", "Write or remove the hook in the settings.")],
    agent: Annotated[str, argument("claude", "The agent.")] = "",
    goal: Annotated[File, option("FILE", "The goal; default: that of the folder.", "--goal")] = None,
    local: Annotated[bool, flag("--local", "Use .claude/settings.local.json of this folder.")] = False,
    yes: options.Yes = False,
) -> int:
    """Check the sessions of Claude Code before they stop.

    A stop is blocked until the goal is verified, within the limits of the goal.

    The agent calls `goal hook claude`, with an event as JSON on stdin. `install` writes this command into
    .claude/settings.json of the folder, and `uninstall` removes it; both show the change first. The goal is goal.toml, or
    [tool.goal] of pyproject.toml, in the folder of the session.
    """
    if (action, agent) == ("claude", ""):
        return _answer(goal)
    if action not in ("install", "uninstall") or agent != "claude":
        words = " ".join(filter(None, (action, agent)))
        raise UsageError(f"goal hook {words}: unknown", "goal hook install claude, or goal hook uninstall claude")
    if action == "install" and goal is not None and not runs.is_file(goal):
        raise UsageError(f"--goal {goal}: there is no such file", "goal init writes a goal file")
    path = Path(".claude", "settings.local.json" if local else "settings.json")
    text, table = _read(path)
    new = _changed(table, _command(goal) if action == "install" else "")
    if new == table:
        output.say(f"{path}: nothing to change\n")
        return 0
    indent = re.search(r"\n([ \t]+)\S", text)
    written = dumps(new, indent=indent[1] if indent else 2, ensure_ascii=False) + "\n" if new else ""
    diff = difflib.unified_diff(text.splitlines(), written.splitlines(), str(path), str(path), lineterm="")
    output.say(clean("".join(f"{line}\n" for line in diff)))
    if not (yes or output.confirmed(f"Write {path}? [y/N]", "goal hook asks before it writes")):
        return 1
    _write(path.resolve(), written)
    return 0


def _command(goal: Path | None) -> str:
    """Return the command that Claude Code calls."""
    called = str(Path(sys.argv[0]).absolute())
    program = "goal" if shutil.which("goal") or not os.access(called, os.X_OK) else called
    return shlex.join([program, "hook", "claude", *(["--goal", str(goal.absolute())] if goal else [])])


def _read(path: Path) -> tuple[str, dict[str, Any]]:
    """Return the text of a settings file, and its content. Raise UsageError if it cannot be edited."""
    hint = "correct it, or use the other file: --local"
    try:
        text = path.read_text("utf-8") if path.exists() else ""
        table = loads(text.strip() or "{}")
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} is not changed, because it cannot be read as JSON: {error}", hint) from None
    hooks = table.get("hooks", {}) if isinstance(table, dict) else None
    if not isinstance(hooks, dict) or any(not isinstance(entries, list) for entries in hooks.values()):
        raise UsageError(f'{path} is not changed: "hooks" is not an object of lists in it', hint)
    return text, table


def _changed(table: dict[str, Any], command: str) -> dict[str, Any]:
    """Return settings without our earlier hook and without empty lists, and with the command, if it is not empty."""
    hooks = {
        name: [entry for entry in entries if not _is_ours(entry)] for name, entries in table.get("hooks", {}).items()
    }
    entry = {"hooks": [{"type": "command", "command": command, "timeout": _TIMEOUT}]}
    for event in _EVENTS if command else ():
        hooks[event] = [*hooks.get(event, []), entry]
    hooks = {name: entries for name, entries in hooks.items() if entries}
    new = {**table, "hooks": hooks}
    return new if hooks else {name: value for name, value in new.items() if name != "hooks"}


def _is_ours(entry: Any) -> bool:
    hooks = entry.get("hooks") if isinstance(entry, dict) else None
    commands = [hook.get("command") for hook in hooks if isinstance(hook, dict)] if isinstance(hooks, list) else []
    return bool(commands) and all(isinstance(one, str) and _OURS.search(one) for one in commands)


def _write(path: Path, text: str) -> None:
    """Write a text; remove the file if it is empty. Raise UsageError."""
    from goalrunner.records.files import write_whole

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
        raise UsageError("goal hook claude reads the event of a hook on stdin, which is a terminal", hint)
    from goalrunner.app.stop_hook import HookEvent, answer
    from goalrunner.system.processes import VARIABLE

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
        found = answer(event, file, runs.home(), os.environ)
    if found:
        output.say(dumps(found) + "\n")
    return 0


def memory(
    owner: Annotated[Text, option("NAME", "Only the facts of this owner.")] = None, json: options.Json = False
) -> int:
    """List the facts that are kept for later runs."""
    from goalrunner.app.memory import list_items
    from goalrunner.reports.tables import memory_text

    items, damages = list_items(runs.home(), owner)
    for damage in damages:
        output.complain(f"Warning: {damage}")
    now = datetime.now(UTC)
    if not (items or json):
        output.complain("No facts are kept. To keep one: goal promote RUN ITEM --kind fact")
    value = [{**item.model_dump(mode="json"), "expired": item.is_expired(now)} for item in items]
    output.say(value if json else memory_text(items, now=now, columns=output.columns()))
    return 0


def promote(
    run: Annotated[str, argument("RUN", "Id of a run or its beginning.", options.run_ids)],
    item: Annotated[str, argument("ITEM", "The source: an observation (o7) or an event (e12).")],
    kind: Annotated[_Kind, option(f"<{'|'.join(_KINDS)}>", "Kind of the item.", parser=options.one_of(_KINDS))],
    text: Annotated[str, option("TEXT", "The text; default: the output of the observation.")] = "",
    expires: Annotated[
        float | None, option("TIME", 'When it expires: "90d", "12h"; default: never.', parser=options.DURATION)
    ] = None,
    sensitivity: Annotated[
        _Sensitivity,
        option("<low|medium|high>", "medium: with --permission; high: also --expires.", parser=options.one_of(_LEVELS)),
    ] = "low",
    permission: Annotated[str, option("TEXT", "Who gave the permission to keep it.")] = "",
    replaces: Annotated[str, option("ID", "The item that this one corrects.")] = "",
) -> int:
    """Keep a fact of a run for later runs.

    Only kinds in [memory] promote of the run's goal are kept, for its owner. Later runs of that owner with
    [memory] recall = true read the fact; the judge never accepts it as evidence.
    """
    from goalrunner.app import memory as promotion
    from goalrunner.app.decisions import run_redactor
    from goalrunner.app.sandbox import person
    from goalrunner.records.files import SystemClock
    from goalrunner.reports.tables import promoted_text

    folder = runs.find(run)
    kept = promotion.promote(
        folder,
        runs.home(),
        item,
        kind,
        SystemClock(),
        run_redactor(folder, os.environ),
        by=person(),
        text=text,
        expires=expires,
        sensitivity=sensitivity,
        permission=permission,
        replaces=replaces,
    )
    output.say(promoted_text(kept))
    return 0


def forget(item: Annotated[str, argument("ID", "Id of an item, as goal memory prints it.")]) -> int:
    """Remove a kept fact.

    The items that it corrected are removed with it.
    """
    from goalrunner.app import memory as promotion
    from goalrunner.reports.tables import forgotten_text

    output.say(forgotten_text(promotion.forget(runs.home(), item)))
    return 0

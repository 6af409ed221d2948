"""The Typer application, and `goal help`. A command is imported when it is called, so that each one starts fast."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import goalrunner
from goalrunner.cli import output
from goalrunner.cli.options import Text, argument
from goalrunner.core import VERSION
from goalrunner.core.errors import UsageError, nearest

GROUPS = {
    "Run": {
        "demo": ("cli.run", "Run an example goal in a new temporary folder; needs no key."),
        "init": ("cli.init", "Write goal.toml for the project in the current folder."),
        "check": ("cli.init", "Check a goal file and run its validators once; spend nothing."),
        "run": ("cli.run", "Work on a goal until it is proven complete or a limit stops it."),
        "resume": ("cli.run", "Continue a run: after a crash, Ctrl-C, a limit or a decision."),
    },
    "Inspect": {
        "list": ("cli.status", "List the runs of this workspace, newest first."),
        "status": ("cli.status", "Print the state of a run, or judge a saved transcript."),
        "audit": ("audits.commands", "Judge many saved transcripts: files, folders or patterns."),
        "show": ("cli.show", "Show what happened in a run, round by round."),
        "watch": ("cli.show", "Follow a running run from another terminal."),
        "diff": ("cli.changes", "Print what a run or a round changed, as a unified patch."),
        "report": ("exports.commands", "Write a run as one HTML file that needs no network."),
        "export": ("exports.commands", "Write a verified change as a patch, a branch, or Markdown."),
        "verify": ("cli.show", "Check offline that the records of a run are intact."),
        "calibrate": ("audits.commands", "Measure how often judges are wrong, on labelled transcripts."),
        "canary": ("audits.commands", "Test whether a judge accepts work without proof."),
    },
    "Decide": {
        "approve": ("cli.approvals", "Approve an action or a result that waits for a person."),
        "deny": ("cli.approvals", "Deny an action or a result that waits for a person."),
        "answer": ("cli.approvals", "Answer an open question of a run."),
        "cancel": ("cli.approvals", "End a run permanently, from any terminal."),
        "restore": ("cli.changes", "Restore the workspace to the end of a round."),
    },
    "Manage": {
        "agents": ("cli.manage", "List the agents: what is installed, and what each can do."),
        "doctor": ("cli.manage", "Check whether an agent can be used on this machine."),
        "hook": ("hooks.commands", "Check the sessions of Claude Code before they stop."),
        "prune": ("cli.changes", "Remove runs of all workspaces that ended long ago."),
        "promote": ("cli.manage", "Keep a fact of a run for later runs."),
        "memory": ("cli.manage", "List the facts that are kept for later runs."),
        "forget": ("cli.manage", "Remove a kept fact."),
        "schema": ("cli.init", "Print the JSON Schema of goal files, outcomes, states or events."),
        "help": ("cli.app", "Show a page of the documentation, or list the pages."),
    },
}
"""Group -> name -> module and summary. The summary is the first line of the command's docstring."""

COMMANDS = {name: command for group in GROUPS.values() for name, command in group.items()}

REMOVED = {"measure": "goal verify RUN checks the records of a run"}
"""Commands of earlier versions, and what replaces each."""

EXAMPLES = {
    "init": 'goal init --validator "pytest -q" --agent claude --yes',
    "check": "goal check fix.toml",
    "run": 'goal run "make the tests pass" --validator "pytest -q" --agent claude',
    "resume": 'goal resume k3f9 --max-iterations 20 --note "keep the public API"',
    "list": "goal list --all --status capped --since 7d --limit 10",
    "status": 'goal status chat.jsonl --objective "Say hello." --judge openai/gpt-5-mini',
    "audit": "goal audit 'logs/**/*.jsonl' --goal goal.toml --junit audits.xml",
    "show": "goal show k3f9 o4",
    "diff": "goal diff k3f9 2",
    "report": "goal report --compare k3f9 b2aa --open",
    "export": "goal export --patch | git apply",
    "calibrate": "goal calibrate labelled.jsonl --judge openai/gpt-5-mini --cost 5",
    "canary": "goal canary k3f9 --judge openai/gpt-5-mini",
    "deny": 'goal deny k3f9 a1 --reason "leave the tests as they are"',
    "answer": 'goal answer k3f9 "Use version 2." --question 1',
    "cancel": 'goal cancel k3f9 --reason "no longer needed"',
    "restore": "goal restore k3f9 0 --path src/parser.py",
    "doctor": "goal doctor --goal goal.toml --try",
    "hook": "goal hook install claude --local",
    "prune": "goal prune --older-than 30d --dry-run",
    "promote": "goal promote k3f9 o7 --kind fact",
    "schema": "goal schema goal > goal.schema.json",
    "help": "goal help sandbox",
}
"""A command line for the help of a command."""


class _Commands(TyperGroup):
    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = dict.fromkeys(COMMANDS, self)  # only the names are used, for suggestions

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import a command and return it; None if there is none of that name. Raise UsageError for a removed one."""
        if cmd_name in REMOVED:
            raise UsageError(f"goal {cmd_name} was removed", REMOVED[cmd_name])
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"goalrunner.{COMMANDS[cmd_name][0]}")
        function = getattr(module, cmd_name, None) or getattr(module, f"{cmd_name}_")
        single = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
        example = EXAMPLES.get(cmd_name)
        single.command(cmd_name, epilog=example and f"\b\nExample:\n  {example}")(function)
        return typer.main.get_command(single)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, group by group."""
        columns = max(map(len, COMMANDS))
        for group, commands in GROUPS.items():
            with formatter.section(group):
                formatter.write_dl([(name.ljust(columns), summary) for name, (_, summary) in commands.items()])

    def invoke(self, ctx: Any) -> Any:
        """Exit with the code that the command returns."""
        raise typer.Exit(super().invoke(ctx))


app = typer.Typer(
    cls=_Commands,
    help="Run an AI agent in rounds until it is verified that the goal is met.",
    epilog="Exit codes: 0 complete, 1 capped, 2 usage or goal file, 3 blocked, 4 failed, 129, 130 and 143 by signal.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        output.say(f"goal {VERSION}\n")
        raise typer.Exit


@app.callback()
def _goal(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options of `goal` itself."""


def help_(topic: Annotated[Text, argument("PAGE", "Name of a page; default: list the pages.")] = None) -> int:
    """Show a page of the documentation, or list the pages.

    For the name of a command, show its help.
    """
    package = Path(goalrunner.__file__).parent
    folder = next(place for place in (package / "docs", package.parents[1] / "docs") if place.is_dir())
    files = sorted(folder.rglob("*.md"), key=lambda page: (page.parent, page.stem))
    pages = {page.stem: page.read_text("utf-8") for page in files}
    if topic is None:
        columns = max(map(len, pages))
        titles = {name: text.partition("\n")[0].lstrip("# ").strip() for name, text in pages.items()}
        lines = [f"goal help {name.ljust(columns)}  {title}" for name, title in titles.items()]
        output.say("\n".join([*lines, "", "goal COMMAND --help explains a command and its options."]) + "\n")
    elif topic in pages:
        output.page(_rendered(pages[topic]) if sys.stdout.isatty() else pages[topic])
    elif topic in COMMANDS:
        return app([topic, "--help"], standalone_mode=False) or 0
    else:
        near = nearest(topic, [*pages, *COMMANDS])
        raise UsageError(f"there is no page {topic}", f"goal help {near}" if near else "goal help lists the pages")
    return 0


def _rendered(text: str) -> str:
    """Return Markdown as text for this terminal."""
    from rich.console import Console
    from rich.markdown import Markdown

    plain = "\n".join(line for line in text.splitlines() if not line.startswith("<!--"))
    console = Console(width=min(output.columns() or 80, 110), no_color=not output.has_colours())
    with console.capture() as capture:
        console.print(Markdown(plain, hyperlinks=False))
    return capture.get()

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
        "demo": (
            "cli.run",
            "Run an example goal in a new temporary folder; needs no key.",
        ),
        "init": ("cli.init", "Write goal.toml for the project in the current folder."),
        "check": (
            "cli.init",
            "Check a goal file and run its validators once; spend nothing.",
        ),
        "run": (
            "cli.run",
            "Work on a goal until it is proven complete or a limit stops it.",
        ),
        "resume": (
            "cli.run",
            "Continue a run: after a crash, Ctrl-C, a limit or a decision.",
        ),
    },
    "Inspect": {
        "list": ("cli.status", "List the runs of this workspace, newest first."),
        "status": (
            "cli.status",
            "Print the state of a run, or judge a saved transcript.",
        ),
        "audit": (
            "audits.commands",
            "Judge many saved transcripts: files, folders or patterns.",
        ),
        "show": ("cli.show", "Show what happened in a run, round by round."),
        "watch": ("cli.show", "Follow a running run from another terminal."),
        "diff": (
            "cli.changes",
            "Print what a run or a round changed, as a unified patch.",
        ),
        "report": (
            "exports.commands",
            "Write a run as one HTML file that needs no network.",
        ),
        "export": (
            "exports.commands",
            "Write a verified change as a patch, a branch, or Markdown.",
        ),
        "verify": ("cli.show", "Check offline that the records of a run are intact."),
    },
    "Decide": {
        "approve": (
            "cli.approvals",
            "Approve an action or a result that waits for a person.",
        ),
        "deny": (
            "cli.approvals",
            "Deny an action or a result that waits for a person.",
        ),
        "answer": ("cli.approvals", "Answer an open question of a run."),
        "note": (
            "cli.approvals",
            "Give the agent of a run a note with its next prompt, from any terminal.",
        ),
        "cancel": ("cli.approvals", "End a run permanently, from any terminal."),
        "apply": (
            "copies.commands",
            "Bring the verified change of a run into its workspace.",
        ),
        "discard": ("copies.commands", "Remove the copy of a run."),
        "restore": ("cli.changes", "Restore the workspace to the end of a round."),
    },
    "More": {
        "agents": (
            "cli.manage",
            "List the agents, or check whether one can be used on this machine.",
        ),
        "judge calibrate": (
            "audits.commands",
            "Measure how often judges are wrong, on labelled transcripts.",
        ),
        "judge canary": (
            "audits.commands",
            "Test whether a judge accepts work without proof.",
        ),
        "memory list": (
            "cli.manage:memory",
            "List the facts that are kept for later runs.",
        ),
        "memory add": ("cli.manage:promote", "Keep a fact of a run for later runs."),
        "memory forget": ("cli.manage", "Remove a kept fact."),
        "hook": (
            "hooks.commands",
            "Check the sessions of Claude Code before they stop.",
        ),
        "prune": ("cli.changes", "Remove runs of all workspaces that ended long ago."),
        "schema": (
            "cli.init",
            "Print the JSON Schema of goal files, outcomes, states or events.",
        ),
        "help": ("cli.app", "Show a page of the documentation, or list the pages."),
    },
}
"""Section of the help -> command -> place of its function and summary. A place is `module`, or `module:function` where the
function is not named as the command. The summary is the first line of the function's docstring."""

COMMANDS = {
    name: command for group in GROUPS.values() for name, command in group.items()
}

SUBCOMMANDS = {
    "judge": "Measure how reliable judges are.",
    "memory": "Manage the facts that are kept for later runs; default: list them.",
}
"""The first words of the commands with two, and their summaries."""

RENAMED = {
    "doctor": ("cli.manage", "agents AGENT"),
    "calibrate": ("audits.commands", "judge calibrate"),
    "canary": ("audits.commands", "judge canary"),
    "promote": ("cli.manage", "memory add"),
    "forget": ("cli.manage", "memory forget"),
}
"""Names of earlier versions that still work: the place of the function, and the command to type instead."""

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
    "judge calibrate": "goal judge calibrate labelled.jsonl --judge openai/gpt-5-mini --cost 5",
    "judge canary": "goal judge canary k3f9 --judge openai/gpt-5-mini",
    "deny": 'goal deny k3f9 a1 --reason "leave the tests as they are"',
    "answer": 'goal answer k3f9 "Use version 2." --question 1',
    "note": 'goal note k3f9 "keep the public API"',
    "cancel": 'goal cancel k3f9 --reason "no longer needed"',
    "restore": "goal restore k3f9 0 --path src/parser.py",
    "agents": "goal agents claude --try",
    "hook": "goal hook install claude --local",
    "prune": "goal prune --older-than 30d --dry-run",
    "memory add": "goal memory add k3f9 o7 --kind fact",
    "schema": "goal schema goal > goal.schema.json",
    "help": "goal help sandbox",
}
"""A command line for the help of a command."""


class _Lazy(TyperGroup):
    """Commands that are imported when they are called. `prefix` is the first word of their names, if they have two."""

    def __init__(self, *, prefix: str = "", **attributes: Any) -> None:
        super().__init__(**attributes)
        words = [command.split() for command in COMMANDS]
        names = (
            [name for *first, name in words if first == [prefix]]
            if prefix
            else [first for first, *_ in words]
        )
        self.prefix = prefix
        self.commands = dict.fromkeys(
            names, self
        )  # only the names are used, for suggestions

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import a command and return it; None if there is none of that name."""
        name = f"{self.prefix} {cmd_name}".strip()
        return _imported(COMMANDS[name][0], name) if name in COMMANDS else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands with their summaries."""
        rows = [(name, COMMANDS[f"{self.prefix} {name}"][1]) for name in self.commands]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse a command line. Without the name of a command, it is one of `list`, if there is such a command."""
        is_named = bool(args) and (
            not args[0].startswith("-") or args[0] in ctx.help_option_names
        )
        if (
            self.prefix
            and "list" in self.commands
            and not (is_named or ctx.resilient_parsing)
        ):
            args = ["list", *args]
        return super().parse_args(ctx, args)


def _imported(place: str, name: str) -> Any:
    """Import the function at a place, and return it as the command of that name."""
    module_name, _, function_name = place.partition(":")
    module, last = (
        import_module(f"goalrunner.{module_name}"),
        function_name or name.split()[-1],
    )
    function = getattr(module, last, None) or getattr(module, f"{last}_")
    single = typer.Typer(
        add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None
    )
    example = EXAMPLES.get(name)
    single.command(name.split()[-1], epilog=example and f"\b\nExample:\n  {example}")(
        function
    )
    return typer.main.get_command(single)


class _Commands(_Lazy):
    """All commands, in sections."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import a command and return it; None if there is none of that name. Raise UsageError for a removed one."""
        if cmd_name in REMOVED:
            raise UsageError(f"goal {cmd_name} was removed", REMOVED[cmd_name])
        if cmd_name in RENAMED:
            return _imported(RENAMED[cmd_name][0], cmd_name)
        if summary := SUBCOMMANDS.get(cmd_name):
            return _Lazy(
                prefix=cmd_name,
                name=cmd_name,
                help=summary,
                no_args_is_help=True,
                rich_markup_mode=None,
            )
        return super().get_command(ctx, cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return name, command and arguments of a command line; for an earlier name, print the new one on stderr."""
        if args[0] in RENAMED and not ctx.resilient_parsing:
            output.complain(
                f"goal {args[0]} is now goal {RENAMED[args[0]][1]}; the earlier name will be removed"
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, section by section; of the last section, only the names."""
        columns = max(map(len, self.commands))
        *sections, last = GROUPS
        for section in sections:
            with formatter.section(section):
                formatter.write_dl(
                    [
                        (name.ljust(columns), summary)
                        for name, (_, summary) in GROUPS[section].items()
                    ]
                )
        with formatter.section(last):
            formatter.write_text(
                ", ".join(
                    dict.fromkeys(name.partition(" ")[0] for name in GROUPS[last])
                )
            )

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
        bool,
        typer.Option(
            "--version",
            callback=_version,
            is_eager=True,
            help="Print the version and exit.",
        ),
    ] = False,
) -> None:
    """Options of `goal` itself."""


def help_(
    topic: Annotated[
        Text, argument("PAGE", "Name of a page; default: list the pages.")
    ] = None,
) -> int:
    """Show a page of the documentation, or list the pages.

    For the name of a command, show its help.
    """
    package = Path(goalrunner.__file__).parent
    folder = next(
        place
        for place in (package / "docs", package.parents[1] / "docs")
        if place.is_dir()
    )
    files = sorted(folder.rglob("*.md"), key=lambda page: (page.parent, page.stem))
    pages = {page.stem: page.read_text("utf-8") for page in files}
    if topic is None:
        columns = max(map(len, pages))
        titles = {
            name: text.partition("\n")[0].lstrip("# ").strip()
            for name, text in pages.items()
        }
        lines = [
            f"goal help {name.ljust(columns)}  {title}"
            for name, title in titles.items()
        ]
        output.say(
            "\n".join(
                [*lines, "", "goal COMMAND --help explains a command and its options."]
            )
            + "\n"
        )
    elif topic in pages:
        shown = (
            "\n".join(
                line
                for line in pages[topic].splitlines()
                if not line.startswith("<!--")
            )
            + "\n"
        )
        output.page(_rendered(shown) if sys.stdout.isatty() else shown)
    elif topic in {*COMMANDS, *SUBCOMMANDS, *RENAMED}:
        return app([*topic.split(), "--help"], standalone_mode=False) or 0
    else:
        near = nearest(topic, [*pages, *COMMANDS])
        raise UsageError(
            f"there is no page {topic}",
            f"goal help {near}" if near else "goal help lists the pages",
        )
    return 0


def _rendered(text: str) -> str:
    """Return Markdown as text for this terminal."""
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console(
        width=min(output.columns() or 80, 110), no_color=not output.has_colours()
    )
    with console.capture() as capture:
        console.print(Markdown(text, hyperlinks=False))
    return capture.get()

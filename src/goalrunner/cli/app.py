"""The Typer application, and `goal help`.

A command is imported when it is called, so that each one starts fast.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from goalrunner.cli import output
from goalrunner.cli.options import Text, argument
from goalrunner.core import VERSION
from goalrunner.core.errors import UsageError, nearest

GROUPS = {
    "Run": {
        "demo": (
            "cli.demo",
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
        "batch": (
            "batches.commands",
            "Run many goals, each in a copy of its workspace, several at a time.",
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
        "watch": ("cli.show", "Follow a running run or batch from another terminal."),
        "diff": (
            "cli.changes",
            "Print what a run or a round changed, as a unified patch.",
        ),
        "report": (
            "exports.report_command",
            "Write a run as one HTML file that needs no network.",
        ),
        "export": (
            "exports.commands",
            "Write a verified change as a patch or a branch, or goals as jobs.",
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
        "cancel": (
            "cli.approvals",
            "End a run or a batch permanently, from any terminal.",
        ),
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
        "receipt make": (
            "receipts.commands",
            "Verify a change of any author, and write a receipt.",
        ),
        "receipt verify": (
            "receipts.commands",
            "Check offline that a receipt is intact and about the current commit.",
        ),
        "fleet init": (
            "fleet.commands",
            "Prepare a database for a fleet, or bring it up to date.",
        ),
        "fleet worker": (
            "fleet.commands",
            "Take runs of a fleet on this machine, until Ctrl-C or SIGTERM.",
        ),
        "fleet submit": ("fleet.commands", "Queue goals for the workers of a fleet."),
        "fleet status": (
            "fleet.commands",
            "Show the runs and workers of a fleet, or one run.",
        ),
        "fleet logs": (
            "fleet.commands",
            "Show what a run of a fleet does, from any machine.",
        ),
        "fleet fetch": (
            "fleet.commands",
            "Bring the records of a run here, for `goal show`, `goal diff` and more.",
        ),
        "fleet cancel": (
            "fleet.commands",
            "End a run or a batch of a fleet permanently, or take it out of the queue.",
        ),
        "fleet retry": (
            "fleet.commands",
            "Queue a run again: one that failed, is blocked, or was given up.",
        ),
        "fleet drain": (
            "fleet.commands",
            "Let workers take no further run, and end when those at work have ended.",
        ),
        "fleet limit": (
            "fleet.commands",
            "Limit what all workers do with a queue or an account; or list limits.",
        ),
        "fleet requeue": (
            "fleet.commands",
            "Queue runs again that nothing works on; workers do this by themselves.",
        ),
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
"""By section of the help: the commands, with the place of the function and the summary.

A place is `module`, or `module:function` where the function is not named as the
command. The summary is the first line of the function's docstring.
"""

COMMANDS = {
    name: command for group in GROUPS.values() for name, command in group.items()
}

SUBCOMMANDS = {
    "judge": "Measure how reliable judges are.",
    "memory": "Manage the facts that are kept for later runs; default: list them.",
    "receipt": "Verify a change of any author; default: make a receipt.",
    "fleet": "Run goals on many machines, with a queue in PostgreSQL.",
}
"""The first words of the commands with two, and their summaries."""

DEFAULTS = {"memory": ("list", False), "receipt": ("make", True)}
"""The second word of a command that need not be typed, and whether that command has an
argument, so that another word is not a mistyped name."""

RENAMED = {
    "doctor": ("cli.manage", "agents AGENT"),
    "calibrate": ("audits.commands", "judge calibrate"),
    "canary": ("audits.commands", "judge canary"),
    "promote": ("cli.manage", "memory add"),
    "forget": ("cli.manage", "memory forget"),
}
"""Names of earlier versions that still work, with what to type instead.

The first value is the place of the function.
"""

REMOVED = {"measure": "goal verify RUN checks the records of a run"}
"""Commands of earlier versions, and what replaces each."""

EXAMPLES = {
    "init": 'goal init --validator "pytest -q" --agent claude --yes',
    "check": "goal check fix.toml",
    "run": 'goal run "make the tests pass" --validator "pytest -q" --agent claude',
    "resume": 'goal resume k3f9 --max-iterations 20 --note "keep the public API"',
    "batch": "goal batch goals/ --jobs 8 --cost 20 --until 07:30",
    "list": "goal list --all --status capped --since 7d --limit 10",
    "status": (
        'goal status chat.jsonl --objective "Say hello." --judge openai/gpt-5-mini'
    ),
    "audit": "goal audit 'logs/**/*.jsonl' --goal goal.toml --junit audits.xml",
    "show": "goal show k3f9 o4",
    "diff": "goal diff k3f9 2",
    "report": "goal report --compare k3f9 b2aa --open",
    "export": "goal export --patch | git apply",
    "receipt make": "goal receipt make --base main -o receipt.json --sign KEY",
    "receipt verify": "goal receipt verify receipt.json --signers allowed_signers",
    "judge calibrate": (
        "goal judge calibrate labelled.jsonl --judge openai/gpt-5-mini --cost 5"
    ),
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
    """Commands that are imported when they are called.

    `prefix` is the first word of their names, if they have two.
    """

    def __init__(self, *, prefix: str = "", **attributes: Any) -> None:
        super().__init__(**attributes)
        self.prefix = prefix
        # Click uses only the names, for suggestions.
        self.commands = {}
        for command in COMMANDS:
            first, _, second = command.partition(" ")
            if not prefix:
                self.commands[first] = self
            elif first == prefix:
                self.commands[second] = self

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
        """Parse a command line.

        Without the name of a command, it is one of the default, if there is one.
        """
        default, has_argument = DEFAULTS.get(self.prefix, (None, False))
        is_named = bool(args) and args[0] in {*self.commands, *ctx.help_option_names}
        if args and not has_argument and not args[0].startswith("-"):
            is_named = True
        # The completion of a shell parses as well.
        if default is not None and not is_named and not ctx.resilient_parsing:
            args = [default, *args]
        return super().parse_args(ctx, args)


@cache
def _imported(place: str, name: str) -> Any:
    """Import the function at a place, and return it as the command of that name."""
    module_name, _, function_name = place.partition(":")
    last_word = name.split()[-1]
    function_name = function_name or last_word
    module = import_module(f"goalrunner.{module_name}")
    function = getattr(module, function_name, None)
    if function is None:
        # Some commands are named as functions of Python, such as `list`.
        function = getattr(module, f"{function_name}_")
    single = typer.Typer(
        add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None
    )
    example = EXAMPLES.get(name)
    # Click does not wrap a paragraph that begins with this character.
    epilog = example and f"\b\nExample:\n  {example}"
    single.command(last_word, epilog=epilog)(function)
    return typer.main.get_command(single)


def _note_on_default(group: str) -> str | None:
    """Return how the help of a group leads to that of its default command."""
    if group not in DEFAULTS:
        return None
    command = f"goal {group} {DEFAULTS[group][0]}"
    return f"goal {group} is short for {command}; {command} -h lists its options."


class _Commands(_Lazy):
    """All commands, in sections."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import a command and return it; None if there is none of that name.

        Raise UsageError for a removed one.
        """
        if cmd_name in REMOVED:
            raise UsageError(f"goal {cmd_name} was removed", REMOVED[cmd_name])
        if cmd_name in RENAMED:
            return _imported(RENAMED[cmd_name][0], cmd_name)
        if cmd_name in SUBCOMMANDS:
            return _Lazy(
                prefix=cmd_name,
                name=cmd_name,
                help=SUBCOMMANDS[cmd_name],
                epilog=_note_on_default(cmd_name),
                no_args_is_help=True,
                rich_markup_mode=None,
            )
        return super().get_command(ctx, cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return name, command and arguments of a command line.

        For an earlier name, print the new one on stderr.
        """
        if args[0] in RENAMED and not ctx.resilient_parsing:
            _, current = RENAMED[args[0]]
            output.complain(
                f"goal {args[0]} is now goal {current};"
                " the earlier name will be removed"
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, section by section; of the last one, only the names."""
        # The names of all sections have the same width.
        width = max(map(len, self.commands))
        *sections, last = GROUPS
        for section in sections:
            rows = [
                (name.ljust(width), summary)
                for name, (_, summary) in GROUPS[section].items()
            ]
            with formatter.section(section):
                formatter.write_dl(rows)
        first_words = dict.fromkeys(name.partition(" ")[0] for name in GROUPS[last])
        with formatter.section(last):
            formatter.write_text(", ".join(first_words))

    def invoke(self, ctx: Any) -> Any:
        """Exit with the code that the command returns."""
        raise typer.Exit(super().invoke(ctx))


app = typer.Typer(
    cls=_Commands,
    help="Run an AI agent in rounds until it is verified that the goal is met.",
    epilog=(
        "Exit codes: 0 complete, 1 capped, 2 usage or goal file, 3 blocked, 4 failed,"
        " 129, 130 and 143 by signal."
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(is_asked: bool) -> None:
    if is_asked:
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
    pages = _pages()
    if topic is None:
        output.say(_list_of_pages(pages))
    elif topic in pages:
        lines = pages[topic].splitlines()
        # The comments are for the programs that write parts of a page.
        text = "\n".join(line for line in lines if not line.startswith("<!--")) + "\n"
        output.page(_rendered(text) if sys.stdout.isatty() else text)
    elif topic in {*COMMANDS, *SUBCOMMANDS, *RENAMED}:
        return app([*topic.split(), "--help"], standalone_mode=False) or 0
    else:
        near = nearest(topic, [*pages, *COMMANDS])
        hint = f"goal help {near}" if near else "goal help lists the pages"
        raise UsageError(f"there is no page {topic}", hint)
    return 0


def _pages() -> dict[str, str]:
    """Return the pages of the documentation, by name."""
    package = Path(__file__).parents[1]
    # An installed package contains the pages, a checkout has them beside src.
    folder = package / "docs"
    if not folder.is_dir():
        folder = package.parents[1] / "docs"
    files = sorted(folder.rglob("*.md"), key=lambda page: (page.parent, page.stem))
    return {page.stem: page.read_text("utf-8") for page in files}


def _list_of_pages(pages: Mapping[str, str]) -> str:
    width = max(map(len, pages))
    lines: list[str] = []
    for name, text in pages.items():
        title = text.partition("\n")[0].lstrip("# ").strip()
        lines.append(f"goal help {name.ljust(width)}  {title}")
    lines += ["", "goal COMMAND --help explains a command and its options."]
    return "\n".join(lines) + "\n"


def _rendered(text: str) -> str:
    """Return Markdown as text for this terminal."""
    from rich.console import Console
    from rich.markdown import Markdown

    # Longer lines are hard to read.
    width = min(output.columns() or 80, 110)
    console = Console(width=width, no_color=not output.has_colours())
    with console.capture() as capture:
        console.print(Markdown(text, hyperlinks=False))
    return capture.get()

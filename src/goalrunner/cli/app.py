"""The Typer application. A command is imported when it is called, so that `goal --help` and each command start fast."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from goalrunner import __version__
from goalrunner.cli import output

COMMANDS = {
    "run": ("run", "Work on a goal until it is proven complete or a limit stops it."),
    "resume": ("resume", "Continue a run: after a crash, Ctrl-C, a limit or a decision."),
    "approve": ("approvals", "Approve what waits for a person in a run that has ended."),
    "deny": ("approvals", "Deny what waits for a person in a run that has ended."),
    "answer": ("approvals", "Answer an open question of a run."),
    "cancel": ("resume", "End a run for good, from any terminal."),
    "watch": ("show", "Follow a running run from another terminal."),
    "status": ("status", "Print the state of a run, or judge a saved transcript."),
    "list": ("status", "List the runs, newest first."),
    "show": ("show", "Show what happened in a run, round by round."),
    "diff": ("diff", "Print what a run or a round changed, as a unified patch."),
    "verify": ("verify", "Check offline that the records of a run are intact."),
    "agents": ("agents", "List the agents: what is installed, and what each can do."),
    "doctor": ("agents", "Check whether an agent can be used on this machine."),
    "restore": ("restore", "Restore the workspace to the end of a round."),
    "prune": ("prune", "Remove runs that ended long ago."),
    "promote": ("memory", "Keep a fact of a run for later runs."),
    "memory": ("memory", "List the facts that are kept for later runs."),
    "forget": ("memory", "Remove a kept fact."),
}
"""Name -> module and summary. The summary is the first line of the command's docstring."""


class _Commands(TyperGroup):
    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = dict.fromkeys(COMMANDS, self)  # only the names are used, for suggestions

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"goalrunner.cli.{COMMANDS[cmd_name][0]}")
        single = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
        single.command(cmd_name)(getattr(module, f"{cmd_name}_" if cmd_name == "list" else cmd_name))
        return typer.main.get_command(single)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])

    def invoke(self, ctx: Any) -> Any:
        """Exit with the code that the command returns."""
        raise typer.Exit(super().invoke(ctx))


app = typer.Typer(
    cls=_Commands,
    help="Run an AI agent in rounds until it is verified that the goal is met.",
    epilog="Exit codes: 0 complete, 1 capped, 2 usage or goal file, 3 blocked, 4 failed, 129, 130 and 143 by signal.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        output.say(f"goal {__version__}\n")
        raise typer.Exit


@app.callback()
def _goal(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options of `goal` itself."""

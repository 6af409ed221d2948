"""The Typer application: its help and its own options. The commands are defined in three files beside it."""

from __future__ import annotations

from typing import Annotated

import typer

from goalrunner import __version__
from goalrunner.cli import inspect_commands, maintenance_commands, output, run_commands

app = typer.Typer(
    name="goal",
    help="Drive an AI agent round after round until it is proven that the goal is reached.",
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


for _group in (run_commands, inspect_commands, maintenance_commands):
    app.add_typer(_group.commands)

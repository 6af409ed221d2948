"""Options of the commands that restore, remove or remember."""

from __future__ import annotations

from typing import NoReturn

import typer

from goalrunner.cli import options

commands = typer.Typer()


@commands.command()
def restore(
    run: options.Run = None,
    number: options.RestoredRound = None,
    snapshot: options.SnapshotId = None,
    path: options.RestoredPaths = None,
    yes: options.Yes = False,
) -> NoReturn:
    """Put the workspace back as a round left it; asks first.

    The state before is kept as a snapshot; its id and the way back are printed. Ignored files, and HEAD, refs and index
    of your repositories stay as they are.
    """
    from goalrunner.cli.restore import restore_run

    raise typer.Exit(restore_run(run, number, snapshot=snapshot, paths=path or (), yes=yes))


@commands.command()
def prune(
    older_than: options.OlderThan,
    yes: options.Yes = False,
    dry_run: options.PruneDryRun = False,
    json: options.PruneJson = False,
) -> NoReturn:
    """Remove runs that ended long ago; never a living one, or one that waits for a person."""
    from goalrunner.cli.restore import prune_runs

    raise typer.Exit(prune_runs(older_than, yes=yes, dry_run=dry_run, json=json))


@commands.command()
def promote(
    run: options.OfRun,
    item: options.Item,
    kind: options.Kind,
    text: options.Said = "",
    expires: options.Expires = None,
    sensitivity: options.Sensitive = "low",
    permission: options.Permission = "",
    replaces: options.Replaces = "",
) -> NoReturn:
    """Let later runs remember a fact, where the goal allows it.

    Only kinds that [memory] promote of the run's goal names are kept, for its owner. Later runs of that owner with
    [memory] recall = true are told, and the judge never takes it for evidence.
    """
    from goalrunner.cli.memory import Wish, promote_item

    wish = Wish(kind, text, expires, sensitivity, permission, replaces)
    raise typer.Exit(promote_item(run, item, wish))


@commands.command()
def memory(owner: options.Owner = None, json: options.MemoryJson = False) -> NoReturn:
    """List what is remembered beyond runs."""
    from goalrunner.cli.memory import list_memory

    raise typer.Exit(list_memory(owner, json=json))


@commands.command()
def forget(item: options.MemoryId) -> NoReturn:
    """Remove an item from the memory, and what it had corrected."""
    from goalrunner.cli.memory import forget_item

    raise typer.Exit(forget_item(item))

"""`goal memory`, `goal promote` and `goal forget`."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Annotated, Literal

from typer import Argument, Option

from goalrunner.cli import output, runs
from goalrunner.cli.options import Json, RequiredRun
from goalrunner.core.errors import UsageError


def memory(
    owner: Annotated[str | None, Option(metavar="NAME", help="Only the facts of this owner.")] = None,
    json: Json = False,
) -> int:
    """List the facts that are kept for later runs."""
    from goalrunner.records.memory import list_items
    from goalrunner.reports.tables import memory_text

    items, damages = list_items(runs.home(), owner)
    for damage in damages:
        output.complain(f"Warning: {damage}")
    now = datetime.now(UTC)
    if json:
        output.say_json([{**item.model_dump(mode="json"), "expired": item.is_expired(now)} for item in items])
        return 0
    if not items:
        output.complain("No facts are kept. To keep one: goal promote RUN ITEM --kind fact")
    output.say(memory_text(items, now=now, columns=output.columns()))
    return 0


def promote(
    run: RequiredRun,
    item: Annotated[str, Argument(metavar="ITEM", help="The source: an observation (o7) or an event (e12).")],
    kind: Annotated[Literal["event", "fact", "preference", "policy_reference"], Option(help="Kind of the item.")],
    text: Annotated[str, Option(metavar="TEXT", help="The text; default: the output of the observation.")] = "",
    expires: Annotated[
        str | None, Option(metavar="TIME", help='When it expires: "90d", "12h"; default: never.')
    ] = None,
    sensitivity: Annotated[
        Literal["low", "medium", "high"], Option(help="medium requires --permission, high also --expires.")
    ] = "low",
    permission: Annotated[str, Option(metavar="TEXT", help="Who gave the permission to keep it.")] = "",
    replaces: Annotated[str, Option(metavar="ID", help="The item that this one corrects.")] = "",
) -> int:
    """Keep a fact of a run for later runs.

    Only kinds in [memory] promote of the run's goal are kept, for its owner. Later runs of that owner with
    [memory] recall = true read the fact; the judge never accepts it as evidence.
    """
    from goalrunner.app import memory as promotion
    from goalrunner.app.decisions import run_redactor
    from goalrunner.app.sandbox import person
    from goalrunner.goalfile import parse_duration
    from goalrunner.records.files import SystemClock
    from goalrunner.reports.tables import promoted_text

    seconds = parse_duration(expires) if expires is not None else None
    if expires is not None and (not seconds or seconds > 1e9):
        raise UsageError(f'--expires: "{expires}" is not a valid duration', 'use "90d", "12h" or "30m"')
    folder = runs.find(run)
    request = promotion.PromotionRequest(
        item=item,
        kind=kind,
        by=person(),
        text=text,
        expires=seconds,
        sensitivity=sensitivity,
        permission=permission,
        replaces=replaces,
    )
    redactor = run_redactor(folder, os.environ)
    output.say(promoted_text(promotion.promote(folder, runs.home(), request, SystemClock(), redactor)))
    return 0


def forget(item: Annotated[str, Argument(metavar="ID", help="Id of an item, as goal memory prints it.")]) -> int:
    """Remove a kept fact.

    The items that it corrected are removed with it.
    """
    from goalrunner.records.memory import find_item
    from goalrunner.reports.tables import forgotten_text

    file = find_item(runs.home(), item)
    if file is None:
        raise UsageError(f'there is no kept fact with the id "{item[:40]}"', "goal memory lists all items")
    with file.writing():
        removed = file.forget(item)
    output.say(forgotten_text(removed))
    return 0

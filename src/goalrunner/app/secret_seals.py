"""Secrets of a goal file: left out of the run's folder, and read again when the run is resumed."""

from __future__ import annotations

import contextlib
import hmac
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalrunner.core.agent_preset import BudgetName
from goalrunner.core.errors import GoalError, RecordError, UsageError
from goalrunner.core.events import GoalCreated, GoalRecord, Plan
from goalrunner.core.goal import Goal
from goalrunner.goalfile import dump_goal, load_goal, place_in, resolve_goal
from goalrunner.records.token_formats import is_redacted

SEAL = "seal"
"""The file in the home with the key of the seals."""

_PRESETS = "the agent's own file"
_BYTES = 32
_ANEW = "start a new run: goal run GOAL_FILE"
_NAMED = "the agent and the checks also get the variables of your shell: leave the key out, and export it there"

Place = tuple[str | int, ...]
"""Where a text stands in a goal: keys, and places in lists."""


@dataclass(frozen=True)
class Left:
    """What the frozen goal of a new run leaves out."""

    seals: Mapping[str, str]
    """By key of the goal; none where a resumed run could not take them again."""
    note: str = ""
    """What must be said aloud then."""


def left_out(frozen: str, goal: Goal, home: Path, goal_file: Path | None, environ: Mapping[str, str]) -> Left:
    """The secrets of a goal that its frozen text does not hold. Raises RecordError where they cannot be sealed."""
    table = tomllib.loads(frozen)
    places = list(_redacted(table))
    if not places:
        return Left({})
    names = [_name(place) for place in places]
    whole = _texts(tomllib.loads(dump_goal(goal)), places)
    again: list[str | None] = []
    with contextlib.suppress(GoalError):
        again = _texts(_loaded(goal_file, table, environ), places)
    if again != whole:
        told = (
            f"{_some(names)}: a secret, which is never kept and stands in no goal file, so this run cannot be resumed"
        )
        return Left({}, f"{told}; {_NAMED}")
    key = _key(home) or _new_key(home)
    return Left({name: _seal(key, name, text or "") for name, text in zip(names, whole, strict=True)})


def retaken(
    frozen: str, kept: Path, home: Path, goal_file: Path | None, seals: Mapping[str, str], environ: Mapping[str, str]
) -> dict[str, Any]:
    """The table of a frozen goal, with the secrets that it left out. `kept` is its file, for messages.

    Raises UsageError where they are nowhere, or are not those that the run began with.
    """
    table = tomllib.loads(frozen)
    places = list(_redacted(table))
    if not places:
        return table
    names = [_name(place) for place in places]
    key = _key(home)
    if key is None or any(name not in seals for name in names):
        raise UsageError(
            f"{kept} holds a secret that was not kept ({_some(names)}), so the run cannot be resumed",
            f"{_ANEW}; {_NAMED}",
        )
    try:
        texts = _texts(_loaded(goal_file, table, environ), places)
    except GoalError as error:
        raise UsageError(
            f"{_some(names)}: a secret, which is not kept, and {goal_file or _PRESETS} does not give it again: {error}",
            "put that back, or start a new run",
        ) from error
    for place, name, text in zip(places, names, texts, strict=True):
        if text is None or not hmac.compare_digest(_seal(key, name, text), seals[name]):
            where = place_in(goal_file, place) if goal_file is not None else f"{_PRESETS}:"
            raise UsageError(
                f"{where} {name} is not the secret that the run began with, which is not kept",
                "put it back, or start a new run",
            )
        _put(table, place, text)
    return table


def _redacted(value: Any, place: Place = ()) -> Iterator[Place]:
    """Where something was replaced."""
    match value:
        case str():
            if is_redacted(value):
                yield place
        case Mapping():
            for key, item in value.items():
                if place or key != "redact":  # kept as it is
                    yield from _redacted(item, (*place, key))
        case list():
            for number, item in enumerate(value):
                yield from _redacted(item, (*place, number))


def _loaded(goal_file: Path | None, table: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """The goal that the file holds now, in the long form; without one, what the user's own presets say. Raises GoalError."""
    said = {f"{name}.{key}": table.get(name, {}).get(key) for name, key in _CHOSEN}
    without = {name: value for name, value in environ.items() if not name.startswith("GOAL_")}
    if goal_file is not None:
        goal = load_goal(goal_file, said, without, runnable=False)
    else:
        goal = resolve_goal({}, {**said, "objective": table["objective"]}, without, runnable=False)
    return tomllib.loads(dump_goal(goal))


_CHOSEN = (("agent", "use"), ("agent", "model"), ("judge", "model"), ("workspace", "path"))
"""What options may have laid over the file."""


def _texts(table: Any, places: list[Place]) -> list[str | None]:
    return [_text(table, place) for place in places]


def _text(value: Any, place: Place) -> str | None:
    for step in place:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value if isinstance(value, str) else None


def _put(table: Any, place: Place, text: str) -> None:
    for step in place[:-1]:
        table = table[step]
    table[place[-1]] = text


def _name(place: Place) -> str:
    """As a person writes it: `validators[0].env.TOKEN`."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)
    return "".join(steps).removeprefix(".")


def _some(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


def _seal(key: bytes, name: str, text: str) -> str:
    return hmac.digest(key, f"{name}\0{text}".encode("utf-8", "surrogatepass"), "sha256").hex()


def _key(home: Path) -> bytes | None:
    """The key of the seals; None where there is none. Raises RecordError for one that cannot be read."""
    path = home / SEAL
    try:
        key = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RecordError(f"cannot read {path}: {error.strerror}", "set GOAL_HOME to a folder of yours") from error
    if len(key) != _BYTES:
        raise RecordError(f"{path} is damaged", "remove it; runs whose goal holds a secret must be started anew")
    return key


def _new_key(home: Path) -> bytes:
    """A key, or that of another process that was faster. Raises RecordError where none can be made."""
    path, new = home / SEAL, home / f".{SEAL}-{os.urandom(4).hex()}"
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with open(handle, "wb") as file:  # noqa: PTH123 - no Path, a handle
                file.write(os.urandom(_BYTES))
                file.flush()
                os.fsync(file.fileno())
            with contextlib.suppress(FileExistsError):
                os.link(new, path)
        finally:
            new.unlink()
        return path.read_bytes()
    except OSError as error:
        raise RecordError(f"cannot make {path}: {error.strerror}", "set GOAL_HOME to a folder of yours") from error


def goal_created(
    goal: Goal,
    run_id: str,
    now: str,
    validators: tuple[str, ...],
    hidden: tuple[str, ...] = (),
    *,
    has_judge: bool,
    needs_round: bool = False,
    unenforced: tuple[BudgetName, ...] = (),
) -> GoalCreated:
    """The first event: the goal record, and what policy needs of the goal. `now` is ISO 8601.

    `needs_round` lets the agent work even after a green baseline; `unenforced` are budgets that count what is known alone.
    """
    commands = [spec for spec in goal.validators if spec.run is not None]
    visible = sum(not spec.hidden for spec in commands)
    # Commands alone can be run before there is a response; a callable checks one.
    takes_baseline = goal.deliverable == "workspace" and visible > 0
    checks_response = len(commands) < len(validators) + len(hidden)
    record = GoalRecord(
        goal_id=run_id,
        run_id=run_id,
        owner=goal.owner,
        description=goal.objective,
        success_criteria=goal.success_criteria,
        constraints=goal.constraints,
        risk_class=goal.risk_class,
        created_at=now,
        updated_at=now,
    )
    plan = Plan(
        max_iterations=goal.max_iterations,
        timeout=goal.timeout,
        tokens=goal.budget.tokens,
        cost_usd=goal.budget.cost_usd,
        unenforced=unenforced,
        validators=validators,
        has_judge=has_judge,
        minimum_score=goal.judge.minimum_score,
        require=goal.judge.require,
        takes_baseline=takes_baseline,
        wants_red=goal.baseline == "red",
        needs_round=needs_round or checks_response,
        hidden=hidden,
        protects=goal.workspace.protect,
        editable=goal.workspace.editable,
        # A callable checks the response, which no snapshot shows: equal snapshots are then no sign of a stall.
        stall_rounds=goal.stall_rounds if has_judge or (takes_baseline and visible == len(validators)) else None,
        deliverable=goal.deliverable,
        approvals=goal.approvals,
    )
    return GoalCreated(goal=record, plan=plan)

"""The commands `goal agents` and `goal memory`."""

from __future__ import annotations

import os
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal, get_args

from goalrunner.cli import goals, main, options, output, runs
from goalrunner.cli.options import File, Text, argument, flag, option
from goalrunner.core.errors import ExitCode, UsageError

_Kind = Literal["event", "fact", "preference", "policy_reference"]
_Sensitivity = Literal["low", "medium", "high"]
_KINDS, _LEVELS = get_args(_Kind), get_args(_Sensitivity)

GoalFile = Annotated[
    File, option("FILE", "Use [agents] and [agent] of this goal file.", "--goal")
]
Try = Annotated[
    bool,
    flag("--try", "Also run one real round in a temporary folder, which costs tokens."),
]


def agents(
    agent: Annotated[
        Text,
        argument(
            "AGENT", "Check this one; default: list all.", options.agent_completions
        ),
    ] = None,
    goal: GoalFile = None,
    try_: Try = False,
    json: options.Json = False,
) -> int:
    """List the agents, or check whether one can be used on this machine.

    Lists the built-in agents, those of the folder ~/.config/goal/agents, and with
    --goal those of a goal file: what is installed, and what each can do. The exit code
    is 2 if a file of that folder is invalid.

    With AGENT, checks its program, version, key or login, git and the sandbox, and
    prints what to type. The exit code is 0 if the agent can be used, else 4. No model
    is called, except with --try: then the agent creates a file in a temporary folder,
    with the configured model, and the usage is printed. --try without AGENT is for
    GOAL_AGENT, or the goal's agent.
    """
    if agent is not None or try_:
        return doctor(agent, goal, try_, json)
    return _list_agents(goal, json=json)


def _list_agents(goal: Path | None, *, json: bool) -> int:
    """Print the agents, and which files of the user are invalid."""
    from goalrunner.agents.external_agents import BUILT_IN, registered_names, user_files
    from goalrunner.agents.facts import CHAT_FACTS, Origin, survey
    from goalrunner.goalfile.agents import AgentCatalog
    from goalrunner.reports.agent_tables import agents_text

    of_user = user_files(os.environ)
    of_goal = goals.resolved(goal, {}).agents if goal is not None else {}
    catalog = AgentCatalog(of_goal, of_user)
    origins: dict[str, Origin] = {
        **dict.fromkeys(BUILT_IN, "built in"),
        **dict.fromkeys(registered_names(), "installed"),
        **dict.fromkeys(of_goal, "goal file"),
        **dict.fromkeys(of_user, "user"),
    }
    presets, errors = {}, []
    for name in sorted(origins):
        try:
            presets[name] = catalog.preset(name)
        except UsageError as problem:
            # A file of the user, or the class of another package, may be wrong.
            errors.append(problem)
    facts = (CHAT_FACTS, *survey(presets, origins, os.environ))
    if json:
        output.say([{**asdict(fact), "installed": fact.installed} for fact in facts])
    else:
        output.say(agents_text(facts, columns=output.columns()))
    for error in errors:
        output.complain(main.error_text(error))
    return int(errors[0].exit_code) if errors else 0


def doctor(
    agent: Annotated[
        Text,
        argument(
            "AGENT", "Default: GOAL_AGENT, or the goal's.", options.agent_completions
        ),
    ] = None,
    goal: GoalFile = None,
    try_: Try = False,
    json: options.Json = False,
) -> int:
    """Check whether an agent can be used on this machine."""
    from goalrunner.app.doctor import examine
    from goalrunner.reports.agent_tables import diagnosis_lines, diagnosis_value

    target = goals.resolved(
        goal, {"objective": None if goal else "doctor", "agent.use": agent}
    )
    diagnosis = examine(target, os.environ, with_round=try_)
    if json:
        output.say(diagnosis_value(diagnosis))
    else:
        output.say(output.terminal_text(diagnosis_lines(diagnosis)))
    return int(ExitCode.COMPLETE if diagnosis.usable else ExitCode.FAILED)


def memory(
    owner: Annotated[Text, option("NAME", "Only the facts of this owner.")] = None,
    json: options.Json = False,
) -> int:
    """List the facts that are kept for later runs."""
    from goalrunner.app.memory import list_items
    from goalrunner.reports.memory_table import memory_text

    items, damages = list_items(runs.home(), owner)
    for damage in damages:
        output.complain(f"Warning: {damage}")
    now = datetime.now(UTC)
    if json:
        output.say(
            [
                {**item.model_dump(mode="json"), "expired": item.is_expired(now)}
                for item in items
            ]
        )
        return 0
    if not items:
        output.complain(
            "No facts are kept. To keep one: goal memory add RUN ITEM --kind fact"
        )
    output.say(memory_text(items, now=now, columns=output.columns()))
    return 0


def promote(
    run: Annotated[
        str, argument("RUN", "Id of a run or its beginning.", options.run_ids)
    ],
    item: Annotated[
        str, argument("ITEM", "The source: an observation (o7) or an event (e12).")
    ],
    kind: Annotated[
        _Kind,
        option(
            f"<{'|'.join(_KINDS)}>", "Kind of the item.", parser=options.one_of(_KINDS)
        ),
    ],
    text: Annotated[
        str, option("TEXT", "The text; default: the output of the observation.")
    ] = "",
    expires: Annotated[
        float | None,
        option(
            "TIME",
            'When it expires: "90d", "12h"; default: never.',
            parser=options.DURATION,
        ),
    ] = None,
    sensitivity: Annotated[
        _Sensitivity,
        option(
            "<low|medium|high>",
            "medium: with --permission; high: also --expires.",
            parser=options.one_of(_LEVELS),
        ),
    ] = "low",
    permission: Annotated[
        str, option("TEXT", "Who gave the permission to keep it.")
    ] = "",
    replaces: Annotated[str, option("ID", "The item that this one corrects.")] = "",
) -> int:
    """Keep a fact of a run for later runs.

    Only kinds in [memory] promote of the run's goal are kept, for its owner. Later runs
    of that owner with [memory] recall = true read the fact; the judge never accepts it
    as evidence.
    """
    from goalrunner.app import promotion
    from goalrunner.app.decisions import run_redactor
    from goalrunner.app.sandbox import person
    from goalrunner.records.event_log import SystemClock
    from goalrunner.reports.memory_table import memory_text

    folder = runs.find(run)
    fact = promotion.promote_fact(
        folder,
        runs.home(),
        promotion.Promotion(
            item=item,
            kind=kind,
            by=person(),
            text=text,
            expires=expires,
            sensitivity=sensitivity,
            permission=permission,
            replaces=replaces,
        ),
        SystemClock(),
        run_redactor(folder, os.environ),
    )
    output.say(memory_text([fact], now=datetime.now(UTC), columns=output.columns()))
    return 0


def forget(
    item: Annotated[str, argument("ID", "Id of an item, as goal memory prints it.")],
) -> int:
    """Remove a kept fact.

    The items that it corrected are removed with it.
    """
    from goalrunner.app.memory import forget_fact
    from goalrunner.reports.memory_table import forgotten_text

    output.say(forgotten_text(forget_fact(runs.home(), item)))
    return 0

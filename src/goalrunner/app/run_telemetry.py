"""Whether a run sends telemetry, and what the telemetry has to know of it."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from goalrunner.core.errors import UsageError

if TYPE_CHECKING:
    from goalrunner.app.resolve import RunConfig
    from goalrunner.core.goal import Goal
    from goalrunner.records.run_records import RunRecords
    from goalrunner.telemetry.observer import Telemetry

_BUILT_IN = "built-in"
"""The name of the built-in agent in telemetry."""


def refuse_missing_extra(goal: Goal) -> None:
    """Raise UsageError if the goal has telemetry whose packages are not installed."""
    if goal.telemetry.otlp:
        require_extra("[telemetry]")


def require_extra(what: str) -> None:
    """Raise UsageError if the packages are not installed that `what` needs."""
    for package in ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"):
        try:
            spec = find_spec(package)
        except ImportError:
            # A package above it is missing.
            spec = None
        if spec is None:
            raise UsageError(
                f"{what} needs the packages of the extra `telemetry`",
                "install them: pip install 'goalrunner[telemetry]'; or remove otlp",
            )


def open_telemetry(config: RunConfig, records: RunRecords) -> Telemetry | None:
    """Return the telemetry of a session; None if the goal has none.

    Raise UsageError if it cannot be used.
    """
    settings, options = config.goal.telemetry, config.options
    if not settings.otlp or not options.keeps_run:
        return None
    refuse_missing_extra(config.goal)
    # Imported on use: the packages are an extra, and take a fifth of a second.
    from goalrunner.telemetry.attributes import RunFacts
    from goalrunner.telemetry.content import NO_CONTENT, RunContent
    from goalrunner.telemetry.observer import SessionPlace, Telemetry

    redact = config.redactor.text
    content = NO_CONTENT
    if settings.content:
        content = RunContent(records.artifacts, records.transcript, redact)
    # An external agent, or a program's own, may report many calls at once.
    calls_models = "agent" in config.models or config.callers_model is not None
    models = {account: redact(name) for account, name in config.model_names.items()}
    if not calls_models:
        # It has the name of the agent. An external agent reports its model.
        models.pop("agent")
    facts = RunFacts(
        records.run_id, redact(_agent_name(config)), models, calls_models=calls_models
    )
    folder = records.folder.path if records.folder is not None else None
    place = SessionPlace(options.environ, folder)
    return Telemetry(settings, facts, place, content, options.observers)


def _agent_name(config: RunConfig) -> str:
    if config.usable_agents:
        return config.usable_agents[0].name
    if config.options.conversation is not None:
        return type(config.options.conversation).__name__
    return _BUILT_IN

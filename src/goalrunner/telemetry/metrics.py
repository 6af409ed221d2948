"""The metrics of runs: counts by status and result, durations, tokens and dollars."""

from __future__ import annotations

from opentelemetry.metrics import Meter

from goalrunner.core import events
from goalrunner.telemetry import conventions as names
from goalrunner.telemetry.attributes import RunFacts

# Seconds; a run takes from seconds to a night, for which the default is too short.
_RUN_SECONDS = (10, 30, 60, 300, 900, 1800, 3600, 7200, 14400, 28800)
_STEP_SECONDS = (0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600)


class RunMetrics:
    """Counts the events of one session of a run."""

    def __init__(self, meter: Meter, run: RunFacts) -> None:
        self._run = run
        self._agent = run.agent
        self._began: float | None = None
        self._turn_began = 0.0
        count = meter.create_counter
        self._runs = count("goal.runs", "{run}", "Runs that ended, by status.")
        self._rounds = count("goal.rounds", "{round}", "Turns that were checked.")
        self._cost = count("goal.cost", "USD", "Dollars by account, as far as known.")
        self._validators = count(
            "goal.validators", "{result}", "Results of validators after rounds."
        )
        self._verdicts = count("goal.verdicts", "{verdict}", "Verdicts of the judge.")
        self._tokens = meter.create_histogram(
            names.TOKEN_USAGE, "{token}", "Tokens of a model call, by type."
        )
        self._run_seconds = meter.create_histogram(
            "goal.run.duration",
            "s",
            "Active time of runs that ended.",
            explicit_bucket_boundaries_advisory=_RUN_SECONDS,
        )
        self._turn_seconds = meter.create_histogram(
            names.AGENT_DURATION,
            "s",
            "Active time of turns of the agent.",
            explicit_bucket_boundaries_advisory=_STEP_SECONDS,
        )
        self._tool_seconds = meter.create_histogram(
            names.TOOL_DURATION,
            "s",
            "Duration of tool calls.",
            explicit_bucket_boundaries_advisory=_STEP_SECONDS,
        )

    def on_record(self, record: events.Record) -> None:
        """Count an event."""
        event = record.event
        match event:
            case events.AgentSwitched():
                self._agent = event.agent
            case events.RoundStarted():
                self._turn_began = record.elapsed
            case events.RoundFinished():
                agent = {names.OPERATION: names.AGENT, names.AGENT_NAME: self._agent}
                self._turn_seconds.record(record.elapsed - self._turn_began, agent)
            case events.ToolResultRecorded():
                tool = {names.TOOL_NAME: event.observation.source}
                self._tool_seconds.record(event.duration, tool)
            case events.UsageRecorded():
                self._count_usage(event)
            case events.ValidatorsFinished():
                self._count_results(event)
            case events.VerdictRecorded():
                self._verdicts.add(1, {"goal.complete": event.verdict.complete})
            case events.RunEnded():
                status = {"goal.status": str(event.status)}
                reason = {"goal.stop_reason": str(event.stop_reason)}
                self._runs.add(1, {**status, **reason})
                self._run_seconds.record(record.elapsed, status)

    def _count_usage(self, event: events.UsageRecorded) -> None:
        usage = event.usage
        account = {"goal.account": event.account}
        model = {**self._run.model_of(event.account), **account}
        is_call = event.account != "agent" or self._run.calls_models
        operation = {names.OPERATION: names.CHAT if is_call else names.AGENT}
        tokens = {"input": usage.input_tokens, "output": usage.output_tokens}
        for kind, number in tokens.items():
            if number is not None:
                token_type = {names.TOKEN_TYPE: kind}
                self._tokens.record(number, {**model, **operation, **token_type})
        if usage.known_cost_usd:
            self._cost.add(usage.known_cost_usd, model)

    def _count_results(self, event: events.ValidatorsFinished) -> None:
        self._rounds.add(1)
        for result in event.results:
            self._validators.add(
                1,
                {
                    "goal.validator.name": result.name,
                    "goal.validator.result": result.reason,
                },
            )

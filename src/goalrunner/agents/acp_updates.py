"""Updates of an ACP agent: tool calls and usage."""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from goalrunner.agents.acp_process import CANCELLED
from goalrunner.agents.file_tools import unified
from goalrunner.agents.output_reader import usage_delta
from goalrunner.agents.parser import UsageReported, as_text, at, exit_code, first, items, number, text
from goalrunner.core.agent_preset import BudgetName, Scope
from goalrunner.core.errors import one_line
from goalrunner.core.outcome import Usage

KINDS = ("read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other")
DONE, FAILED = "completed", "failed"

_FREE = ("read", "search", "think")
_WRITING = ("edit", "delete", "move")
_EXIT_CODES = (
    "exit_code",
    "exitCode",
    "exit_status",
    "exit",
    "metadata.exit",
    "metadata.exit_code",
    "metadata.exitCode",
)
_OUTPUTS = ("formatted_output", "aggregated_output", "output", "stdout", "text", "error")


class AcpCall:
    """What is known of a tool call so far. Its paths are relative to `workspace`."""

    def __init__(self, call_id: str, workspace: Path) -> None:
        self.id = call_id
        self.recorded_as = ""
        """The id of the call in the log; empty: it is not recorded."""
        self.closed = False
        self._workspace = workspace
        self._known: dict[str, Any] = {}

    def update(self, update: Any) -> None:
        """Take in a `tool_call`, a `tool_call_update`, or the call of a permission request."""
        for name in ("kind", "status", "title", "content", "locations", "rawInput", "rawOutput"):
            if at(update, name) is not None:
                self._known[name] = update[name]

    def close(self) -> None:
        """Note that the call has ended and is recorded."""
        self.closed = True
        self._known.clear()

    @property
    def kind(self) -> str:
        """Return one of the protocol's kinds; "other" for anything else."""
        kind = self._known.get("kind")
        return kind if isinstance(kind, str) and kind in KINDS else "other"

    @property
    def status(self) -> str:
        """Return "pending", "in_progress", "completed", "failed", or what else the agent says."""
        return text(self._known.get("status")) or "pending"

    @property
    def effect(self) -> Literal["shell", "write"] | None:
        """Return what needs permission. An unknown kind may be a command, and so may reading with a command line."""
        if self.kind in _FREE:
            return "shell" if self._command_line() else None
        return "write" if self.kind in _WRITING else "shell"

    @property
    def command(self) -> str:
        """Return the command line or the paths, or else the title."""
        if self.kind == "fetch":  # like the program of that name, which is known to use the network
            return f"fetch {self._title()}"
        said = self._title() if self.effect == "shell" else self._paths() or self._title()
        return said or self._paths() or self.kind

    @property
    def facts(self) -> tuple[str, ...]:
        """Return how it ended, as the agent reports it."""
        if self.status not in (DONE, FAILED):
            return ("interrupted",)
        raw = self._known.get("rawOutput")
        code = next((code for path in _EXIT_CODES if (code := exit_code(first(raw, path))) is not None), None)
        if code is not None:
            return (f"exit {code}",)
        return ("error",) if self.status == FAILED else ("completed",)

    @property
    def output(self) -> str:
        """Return its content, or else its raw output."""
        shown = "\n".join(filter(None, map(self._block, items(self._known.get("content")))))
        if shown:
            return shown
        raw = self._known.get("rawOutput")
        stdout = at(raw, "stdout")
        for path in _OUTPUTS:
            if isinstance(said := at(raw, path), str) and said:
                return text(said) + (text(at(raw, "stderr")) if said == stdout else "")
        return as_text(raw)

    @property
    def diff(self) -> str:
        """Return what it would change, if the agent says so."""
        return "".join(map(self._diff, self._diffs()))

    @property
    def summary(self) -> str:
        """Return the command on one line."""
        return one_line(self.command)

    def _title(self) -> str:
        given = self._command_line() or text(at(self._known.get("rawInput"), "url"))
        if given.strip():
            return given
        title = text(self._known.get("title")).strip()
        ticks = min(len(title) - len(title.lstrip("`")), len(title) - len(title.rstrip("`")), len(title) // 2)
        return title[ticks : len(title) - ticks].strip()

    def _command_line(self) -> str:
        command = first(self._known.get("rawInput"), "command", "cmd")
        if isinstance(command, list) and all(isinstance(word, str) for word in command):
            command = shlex.join(command)
        return text(command) if text(command).strip() else ""

    def _paths(self) -> str:
        named = [at(one, "path") for one in (*items(self._known.get("locations")), *self._diffs())]
        named += [at(self._known.get("rawInput"), name) for name in ("file_path", "path", "filePath")]
        return ", ".join(dict.fromkeys(self._relative(path) for path in map(text, named) if path))

    def _relative(self, path: str) -> str:
        inside = os.path.normpath(path).startswith(f"{self._workspace}{os.sep}")
        return os.path.relpath(path, self._workspace) if inside else path

    def _diffs(self) -> list[Any]:
        return [one for one in items(self._known.get("content")) if at(one, "type") == "diff"]

    def _block(self, one: Any) -> str:
        if at(one, "type") == "diff":
            return self._diff(one)
        return text(first(one, "content.text", "content.resource.text")) if at(one, "type") == "content" else ""

    def _diff(self, one: Any) -> str:
        path, old, new = self._relative(text(at(one, "path"))), text(at(one, "oldText")), text(at(one, "newText"))
        return unified(old, new, path).text


def allowed(request: Any, *, guarded: bool) -> dict[str, Any] | None:
    """Return the answer that allows it once; None if the agent does not offer that.

    An agent that offers only permission for all later actions gets that unless each action is asked about (`guarded`).
    """
    return _chosen(request, ("allow_once",) if guarded else ("allow_once", "allow_always"))


def rejected(request: Any) -> dict[str, Any]:
    """Return the answer that rejects it, once if the agent offers that."""
    return _chosen(request, ("reject_once", "reject_always")) or CANCELLED


def _chosen(request: Any, kinds: tuple[str, ...]) -> dict[str, Any] | None:
    for kind in kinds:
        for option in items(at(request, "params", "options")):
            name = at(option, "optionId")
            if at(option, "kind") == kind and isinstance(name, str):
                return {"outcome": {"outcome": "selected", "optionId": name}}
    return None


def action_id(kind: str, command: str, preview: str) -> str:
    """Return an id for an action that is the same in another process, where the agent's ids differ."""
    digest = hashlib.sha256("\0".join((kind, command, preview)).encode()).hexdigest()
    return f"{kind}-{digest[:16]}"


Tokens = tuple[int, int]
"""Input, including cached and reasoning tokens, and output."""

_METRICS = "openhands.dev/metrics"
_NAMES = (("inputTokens", "input_tokens"), ("outputTokens", "output_tokens"), ("totalTokens", "total_tokens"))


class AcpUsage:
    """Counts the usage of one session. `scopes` is what the agent reports; `total` the totals so far."""

    def __init__(self, scopes: Mapping[BudgetName, Scope], total: Usage | None = None) -> None:
        known = total or Usage()
        self.total = known if known.cost_usd is not None else known.model_copy(update={"cost_usd": 0.0})
        """The session's usage, as far as the agent reports totals."""
        self._cumulative_tokens = scopes.get("tokens") == "session"
        self._cumulative_dollars = scopes.get("cost_usd") != "turn"
        self._promises_tokens = "tokens" in scopes
        self._tokens: Tokens | None = None
        self._dollars: float | None = None

    def update(self, params: Any) -> None:
        """Take in the parameters of a `session/update`: amounts of a turn are added, of totals the last one counts."""
        if (amount := _dollars(params)) is not None:
            self._dollars = amount + (0.0 if self._cumulative_dollars else self._dollars or 0.0)
        # Qwen Code reports the tokens of one call, OpenHands those of the session.
        tokens = _counted(at(params, "update", "_meta", "usage")) or _counted(_metrics(params))
        if tokens is not None:
            given, made = (0, 0) if self._cumulative_tokens else self._tokens or (0, 0)
            self._tokens = (given + tokens[0], made + tokens[1])

    def end_turn(self, response: Any) -> Usage:
        """Return the usage of the turn that ended with this response; what was not reported is unknown."""
        tokens, self._tokens = _of_response(response) or self._tokens, None
        dollars, self._dollars = self._dollars, None
        used = self._new_tokens(tokens) if tokens is not None else Usage()
        cost = self._new_dollars(dollars) if dollars is not None else None
        return Usage(
            input_tokens=used.input_tokens,
            output_tokens=used.output_tokens,
            # Tokens for no dollars: the agent does not know the price of its model.
            cost_usd=None if used.tokens and not cost else cost,
            calls=1,
            uncounted_calls=int(tokens is None or not self._promises_tokens),
        )

    def _new_tokens(self, tokens: Tokens) -> Usage:
        report = UsageReported(*tokens, cost=0.0, cumulative=self._cumulative_tokens, dollars=False)
        new, after = usage_delta(report, self.total)
        dollars = {"cost_usd": self.total.cost_usd, "known_cost_usd": self.total.known_cost_usd}
        self.total = after.model_copy(update=dollars)
        return new

    def _new_dollars(self, amount: float) -> float | None:
        report = UsageReported(cost=amount, cumulative=self._cumulative_dollars, tokens=False)
        new, self.total = usage_delta(report, self.total)
        return new.cost_usd


def _dollars(params: Any) -> float | None:
    if at(params, "update", "sessionUpdate") == "usage_update":
        cost = at(params, "update", "cost")
        return number(at(cost, "amount")) if at(cost, "currency") == "USD" else None
    return number(at(_metrics(params), "cost"))


def _metrics(params: Any) -> Any:
    meta = at(params, "_meta")
    return at(meta, "field_meta", _METRICS) or at(meta, _METRICS) or at(params, "update", "_meta", _METRICS)


def _of_response(response: Any) -> Tokens | None:
    """Return the tokens of the answer to a prompt. The rows by model may include helpers that the sum leaves out."""
    quota = at(response, "_meta", "quota")
    told = _counted(at(response, "usage")) or _counted(at(quota, "token_count"))
    rows = [_counted(at(row, "token_count")) or (0, 0) for row in items(at(quota, "model_usage"))]
    whole = (sum(row[0] for row in rows), sum(row[1] for row in rows))
    return whole if sum(whole) > sum(told or (0, 0)) else told


def _counted(usage: Any) -> Tokens | None:
    """Return input and output; the rest of a total counts as input."""
    given, made, total = (
        next((found for name in names if (found := number(at(usage, name))) is not None), None) for names in _NAMES
    )
    if given is None and made is None:
        return None
    return int(max((total or 0) - (made or 0), given or 0)), int(made or 0)

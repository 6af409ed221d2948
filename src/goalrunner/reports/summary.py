"""The summary of a run, whose values may be of any type; and the JSON of an outcome."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goalrunner.reports import figures
from goalrunner.reports.layout import cut, one_line

if TYPE_CHECKING:
    from goalrunner.core.outcome import GoalOutcome


RUNNING = "running"
LOST = "lost"
"""Shown for a run with the status `running` whose process is gone."""
UNREADABLE = "unreadable"

NOT_ENDED = 4
"""Exit code of a run that has not ended, is lost or cannot be read."""

_CLOCK_SLACK = 2.0
"""Seconds by which boot time and wall clock may disagree."""
LONGEST_ACTION = 120


@dataclass(frozen=True)
class Summary:
    """The values of `summary.json`, read with the type that each should have."""

    values: Mapping[str, Any]

    def text(self, key: str) -> str:
        """Return a string; empty if there is none."""
        value = self.values.get(key)
        return value if isinstance(value, str) else ""

    def number(self, key: str) -> float | None:
        """Return a number; None if there is none."""
        return _number(self.values.get(key))

    def integer(self, key: str) -> int:
        """Return a count; 0 if there is none."""
        return int(self.number(key) or 0)

    def texts(self, key: str) -> list[str]:
        """Return a list of strings."""
        value = self.values.get(key)
        return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []

    def tables(self, key: str) -> list[dict[str, Any]]:
        """Return a list of tables."""
        value = self.values.get(key)
        return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []

    def numbers(self, key: str) -> dict[str, float]:
        """Return a table of numbers."""
        value = self.values.get(key)
        items = value.items() if isinstance(value, dict) else ()
        return {name: number for name, item in items if (number := _number(item)) is not None}

    @property
    def status(self) -> str:
        """The status; `lost` if the process of a running run is gone."""
        status = self.text("status") or UNREADABLE
        pid = self.values.get("pid")
        if status == RUNNING and isinstance(pid, int) and is_gone(pid, self.text("updated_at")):
            return LOST
        return status

    @property
    def exit_code(self) -> int:
        """The exit code of the run; 4 if it has none."""
        code = self.values.get("exit_code")
        ended = self.text("status") not in ("", RUNNING, UNREADABLE)
        return code if ended and isinstance(code, int) and not isinstance(code, bool) else NOT_ENDED

    @property
    def spend(self) -> str:
        """Time, tokens and dollars in one line."""
        time = figures.elapsed(self.number("duration") or 0.0)
        if not self.has_spent:
            return time
        tokens = figures.used(self.tokens, self.integer("estimated_tokens"), self.uncounted)
        judge, counted = self.integer("judge_tokens"), 0 if self.uncounted else self.integer("tokens")
        share = figures.judge_share(judge, self.number("judge_cost_usd"), counted, self.number("cost_usd"))
        return " · ".join((time, tokens, self.cost + (share if judge else "")))

    @property
    def tokens(self) -> int | None:
        """The known tokens; None if nothing is known."""
        number = self.number("tokens")
        return None if number is None or (self.uncounted and not number) else int(number)

    @property
    def uncounted(self) -> int:
        """Calls whose tokens are unknown. A run whose process was killed may have one more than it has recorded."""
        return self.integer("uncounted_calls") + (self.status == LOST)

    @property
    def cost_usd(self) -> float | None:
        """Dollars; None if not all of them are known."""
        return None if self.status == LOST else self.number("cost_usd")

    @property
    def known_cost_usd(self) -> float:
        """The known part of the dollars."""
        return self.number("known_cost_usd") or self.number("cost_usd") or 0.0

    @property
    def cost(self) -> str:
        """Dollars as text."""
        return figures.paid(self.cost_usd, self.known_cost_usd, self.uncounted)

    @property
    def has_spent(self) -> bool:
        """Whether anything was used, or may have been."""
        return bool(self.integer("tokens") or self.uncounted or self.known_cost_usd)

    @property
    def waiting(self) -> dict[str, str]:
        """The approvals that wait: kind and action by id."""
        found = {}
        for one in self.tables("approvals"):
            kind, action = str(one.get("kind", "?")), cut(one_line(str(one.get("action", ""))), LONGEST_ACTION)
            found[str(one.get("id", "?"))] = action if action.startswith(f"{kind}: ") else f"{kind}: {action}"
        return found

    @property
    def corrected(self) -> dict[str, Any]:
        """The values; for a lost run, with its status and what is known of its usage."""
        if self.status != LOST:
            return {**self.values, "status": self.status}
        spent = {"uncounted_calls": self.uncounted, "cost_usd": self.cost_usd, "known_cost_usd": self.known_cost_usd}
        return {**self.values, "status": LOST, "tokens": self.tokens, **spent}


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if abs(value) < 1e300 else None


def is_gone(pid: int, seen_at: str) -> bool:
    """Return whether no process has that id, or it started after `seen_at` (ISO 8601): ids are used again."""
    if pid <= 0:
        return True
    try:
        os.kill(pid, 0)
        started = _start_time(pid)
        return started is not None and started > datetime.fromisoformat(seen_at).timestamp() + _CLOCK_SLACK
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError, ValueError):
        return False


def _start_time(pid: int) -> float | None:
    """Return when a process started, in seconds since 1970; None if the system does not say."""
    if sys.platform != "linux":
        return None
    try:
        ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
        boot = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime "))
        return int(boot.split()[1]) + ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, StopIteration):
        return None


def redacted_line(counts: Mapping[str, float]) -> str:
    """Return "3 secrets replaced: github token 2, OPENAI_API_KEY 1"; empty if nothing was replaced."""
    if not counts:
        return ""
    kinds = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    listed = ", ".join(f"{kind} {number:,}" for kind, number in kinds)
    return f"{figures.count(int(sum(counts.values())), 'secret')} replaced: {listed}"


def outcome_text(outcome: GoalOutcome) -> str:
    """Return an outcome as JSON text: the fields of `outcome.json`."""
    return json_text(outcome.model_dump(mode="json"))


def json_text(value: Any) -> str:
    """Return an indented JSON text that contains no command of a CI system, such as `##[add-mask]`, wherever it is printed."""
    return LOG_COMMAND.sub(r"\\u0023", json.dumps(value, indent=2)) + "\n"


LOG_COMMAND = re.compile(r"#(?=#\w*\[)")

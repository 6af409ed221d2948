"""A run's summary, read with care, and JSON for machines."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goalrunner.reports import figures

if TYPE_CHECKING:
    from goalrunner.core.outcome import GoalOutcome


_CLOCK_SLACK = 2.0
"""Seconds by which boot time and wall clock may disagree."""


def is_gone(pid: int, seen_at: str) -> bool:
    """True when no process has that id, or the one that has it began after `seen_at` (ISO 8601): ids are used again."""
    if pid <= 0:
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        return False
    began = _began(pid)
    try:
        return began is not None and began > datetime.fromisoformat(seen_at).timestamp() + _CLOCK_SLACK
    except ValueError:
        return False


def _began(pid: int) -> float | None:
    """When a process began, in seconds since 1970; None where the system does not say."""
    if sys.platform != "linux":
        return None
    try:
        ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
        boot = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime "))
        return int(boot.split()[1]) + ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, StopIteration):
        return None


RUNNING = "running"
LOST = "lost"
"""Shown for a run that says `running` while its process is gone."""
UNREADABLE = "unreadable"

NOT_ENDED = 4
"""Exit code of a run that is not over, is lost or cannot be read: whatever is not complete is never 0."""


@dataclass(frozen=True)
class Summary:
    """What `summary.json` says, with the type of each value made sure."""

    values: Mapping[str, Any]

    def text(self, key: str) -> str:
        """A string; empty where there is none."""
        value = self.values.get(key)
        return value if isinstance(value, str) else ""

    def number(self, key: str) -> float | None:
        """A number; None where there is none."""
        return _number(self.values.get(key))

    def integer(self, key: str) -> int:
        """A count; 0 where there is none."""
        return int(_number(self.values.get(key)) or 0)

    def limit(self, key: str) -> float | None:
        """One of the limits; None: no limit."""
        limits = self.values.get("limits")
        return _number(limits.get(key)) if isinstance(limits, dict) else None

    def texts(self, key: str) -> list[str]:
        """A list of strings."""
        value = self.values.get(key)
        return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []

    def counts(self, key: str) -> dict[str, int]:
        """Counts by name; empty where there are none."""
        value = self.values.get(key)
        found = value.items() if isinstance(value, dict) else ()
        return {name: int(number) for name, item in found if (number := _number(item)) and number > 0}

    @property
    def validators(self) -> list[tuple[str, bool, str]]:
        """Name, green or not, and summary of each validator's last run."""
        found = self.values.get("validators")
        entries = [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []
        return [(str(one.get("name", "?")), one.get("passed") is True, str(one.get("summary", ""))) for one in entries]

    @property
    def status(self) -> str:
        """The run's status; `lost` where the process of a running one is gone."""
        status = self.text("status") or UNREADABLE
        pid = self.values.get("pid")
        if status == RUNNING and isinstance(pid, int) and is_gone(pid, self.text("updated_at")):
            return LOST
        return status

    @property
    def exit_code(self) -> int:
        """The code that the run ended with; 4 while it has none."""
        code = self.values.get("exit_code")
        ended = self.text("status") not in ("", RUNNING, UNREADABLE)
        return code if ended and isinstance(code, int) and not isinstance(code, bool) else NOT_ENDED

    @property
    def spend(self) -> str:
        """Time, tokens and dollars in one line."""
        parts = [figures.elapsed(self.number("duration") or 0.0)]
        if self.has_spent:
            parts += [figures.used(self.tokens, self.integer("estimated_tokens"), self.uncounted), self.cost]
            judge, counted = self.integer("judge_tokens"), 0 if self.uncounted else self.integer("tokens")
            if judge:
                parts[-1] += figures.judge_share(judge, self.number("judge_cost_usd"), counted, self.number("cost_usd"))
        return " · ".join(parts)

    @property
    def tokens(self) -> int | None:
        """Those that are known; None where nothing is."""
        number = self.number("tokens")
        return None if number is None or (self.uncounted and not number) else int(number)

    @property
    def uncounted(self) -> int:
        """Calls whose tokens nobody knows. A run whose process was killed may have one more than it could say.

        Summaries of before had 0 tokens at an unknown price.
        """
        earlier = "cost_usd" in self.values and self.values["cost_usd"] is None and self.number("tokens") == 0
        known = self.integer("uncounted_calls") if "uncounted_calls" in self.values else int(earlier)
        return known + (self.status == LOST)

    @property
    def cost_usd(self) -> float | None:
        """Dollars; None where not all of them are known."""
        return None if self.status == LOST else self.number("cost_usd")

    @property
    def known_cost_usd(self) -> float:
        """Of the dollars, those that are known."""
        return self.number("known_cost_usd") or self.number("cost_usd") or 0.0

    @property
    def cost(self) -> str:
        """Dollars in words."""
        return figures.paid(self.cost_usd, self.known_cost_usd, self.uncounted)

    @property
    def has_spent(self) -> bool:
        """Whether anything was used, or may have been."""
        return bool(self.integer("tokens") or self.uncounted or self.known_cost_usd)

    @property
    def told(self) -> dict[str, Any]:
        """The values for machines, with what is known of a run whose process is gone."""
        if self.status != LOST:
            return {**self.values, "status": self.status}
        spent = {"uncounted_calls": self.uncounted, "cost_usd": self.cost_usd, "known_cost_usd": self.known_cost_usd}
        return {**self.values, "status": LOST, "tokens": self.tokens, **spent}


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if abs(value) < 1e300 else None


def redacted_line(counts: Mapping[str, int]) -> str:
    """Return "3 secrets replaced: github token 2, OPENAI_API_KEY 1"; empty if nothing was replaced."""
    if not counts:
        return ""
    kinds = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    said = ", ".join(f"{kind} {number:,}" for kind, number in kinds)
    return f"{figures.count(sum(counts.values()), 'secret')} replaced: {said}"


def json_text(value: Any) -> str:
    """Any JSON value, indented, ending in a newline."""
    return json.dumps(value, indent=2) + "\n"


def outcome_text(outcome: GoalOutcome) -> str:
    """An outcome as JSON text: the fields of `outcome.json`."""
    return json_text(outcome.model_dump(mode="json"))

"""The commands behind citations are run again, and each citation is replaced by one of the new output."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from goalrunner.core.observation import Observation
from goalrunner.core.ports import AuditRequest
from goalrunner.core.verdict import normalised
from goalrunner.judge.text_matching import OutputText, forms_of
from goalrunner.judge.verdict_parser import JudgeOutcome

Replay = Callable[[Observation, Any], Awaitable[Observation | None]]
"""Runs the command of an observation again and records what it shows, with the recorder of the audit.

None if it cannot run, or must not.
"""

_SHELLS = frozenset({"shell", "bash", "execute", "terminal", "run_shell_command", "command_execution", "execute_bash"})
_EXIT = re.compile(r"exit \d+")
_SEARCHED = 10_000
"""Lines at the end of an output that are compared without durations, times, ids and the like."""


class Replays:
    """The commands of one audit that ran again, each once."""

    def __init__(self, replay: Replay, recorder: object) -> None:
        self._replay, self._recorder = replay, recorder
        self._done: dict[str, Observation | None] = {}

    async def moved(self, outcome: JudgeOutcome, request: AuditRequest) -> tuple[JudgeOutcome, AuditRequest]:
        """Return the verdict with citations of the replays, and the request with the replays in its trail.

        Other citations, and those of commands that could not run again, stay as they are and count while they are fresh.
        """
        if not outcome.passed or outcome.score < request.minimum_score:
            return outcome, request
        criteria = []
        for criterion in outcome.criteria:
            evidence = []
            for citation in criterion.evidence:
                cited = request.trail.observation(citation.observation)
                if cited is not None and is_command(cited) and cited.id not in self._done:
                    self._done[cited.id] = await self._replay(cited, self._recorder)
                again = self._done.get(cited.id) if cited is not None else None
                update = {"observation": again.id} if again else {}
                if again and citation.quote is not None:
                    update["quote"] = same_words(citation.quote, request.trail.read(again))
                evidence.append(citation.model_copy(update=update))
            criteria.append(criterion.model_copy(update={"evidence": tuple(evidence)}))
        known = {item.id for item in request.trail.items if isinstance(item, Observation)}
        new = [item for item in self._done.values() if item is not None and item.id not in known]
        trail = replace(request.trail, items=(*request.trail.items, *new))
        return outcome.model_copy(update={"criteria": criteria}), replace(request, trail=trail)


def is_command(item: Observation) -> bool:
    """Return whether an observation shows a command line that can run again. Validators run in each check anyway."""
    if not item.command or item.path is not None or not item.shows:
        return False
    if not item.reported_by:
        return item.source == "shell"
    return item.source.lower() in _SHELLS or any(map(_EXIT.fullmatch, item.facts))


def same_words(quote: str, output: str) -> str:
    """Return the lines of an output that differ from a quote only in durations, times, ids and the like.

    Return the quote itself if the output contains it, or has no such lines.
    """
    forms = forms_of(quote)
    if any(OutputText(output).holds(form) for form in forms):
        return quote
    lines = output.splitlines()[-_SEARCHED:]
    quoted = [normalised(line) for line in quote.splitlines() if line.strip()]
    wanted, steady = forms_of("\n".join(quoted)), [normalised(line) for line in lines]
    for at in range(len(lines) - len(quoted) + 1):
        shown = OutputText("\n".join(steady[at : at + len(quoted)]))
        if any(shown.holds(form) for form in wanted):
            return "\n".join(lines[at : at + len(quoted)])
    return quote

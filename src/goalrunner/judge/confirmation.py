"""A second opinion on the claim that a goal is blocked: what is asked, and how the answer is read. Asks nobody itself.

The context is fresh: the goal, the evidence, the claim, and no verdict. In doubt the claim does not hold.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from goalrunner.judge.budgeting import TOKEN
from goalrunner.judge.excerpt import excerpt
from goalrunner.judge.fencing import fence
from goalrunner.judge.objects import UnreadableReplyError, objects_in
from goalrunner.judge.wording import OPINION, Form
from goalrunner.ports import Confirmation

CONFIRM_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "confirmed": {"type": "boolean"},
        "reason": {"type": "string", "description": "why or why not, in a sentence or two"},
    },
    "required": ["confirmed", "reason"],
    "additionalProperties": False,
}
"""The schema of the answer, as OpenAI's strict mode takes it."""

_CLAIM = 400 * TOKEN
_LOOKS_LIKE_OPINION = re.compile(r'"confirmed"\s*:')
_REPORTED = "Somebody reports that the work on this goal is blocked. The report is a claim, not evidence:"


def opinion_form(claim: str, nonce: str) -> Form:
    """What is asked: whether this claim holds."""
    report = fence("report", excerpt(claim.strip(), _CLAIM, nonce), nonce, harmless=True)
    return replace(OPINION, question=f"{_REPORTED}\n{report}\n\n{OPINION.question}")


def parse_confirmation(text: str) -> Confirmation:
    """The opinion in an answer. Raises UnreadableReplyError with one sentence that says what is wrong."""
    found, rest = objects_in(text)
    opinions = [value for value in found if "confirmed" in value]
    if not opinions:
        raise UnreadableReplyError("The answer holds no JSON object with an opinion.")
    if any(opinion != opinions[0] for opinion in opinions) or _LOOKS_LIKE_OPINION.search(rest):
        raise UnreadableReplyError("The answer holds several different opinions.")
    confirmed, reason = opinions[0]["confirmed"], opinions[0].get("reason")
    if not isinstance(confirmed, bool):
        raise UnreadableReplyError('"confirmed" must be true or false.')
    if not isinstance(reason, str) or not reason.strip():
        raise UnreadableReplyError('"reason" must say why.')
    return Confirmation(confirmed=confirmed, reason=reason.strip())

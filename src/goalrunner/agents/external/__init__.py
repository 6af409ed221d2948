"""Agents that are programs of their own. Owns how they are started, read and recorded; believes nothing that they say.

One idea a file: `happenings` is what an agent's output can say, `stream` reads it, `turn` records it, `failure` knows
when it means that no work was done, `command` drives one process a round.
"""

from __future__ import annotations

from goalrunner.agents.external.agent import ExternalAgent
from goalrunner.agents.external.command import CommandConversation
from goalrunner.agents.external.failure import HIDDEN_HINT, not_installed
from goalrunner.agents.external.invocation import program_of
from goalrunner.agents.external.pinning import pinned, pinned_words

__all__ = [
    "HIDDEN_HINT",
    "CommandConversation",
    "ExternalAgent",
    "not_installed",
    "pinned",
    "pinned_words",
    "program_of",
]

"""Agents: what does the work, one `send` a round."""

from __future__ import annotations

from goalrunner.agents.chat import ChatConversation
from goalrunner.agents.toolbox import Toolbox

__all__ = ["ChatConversation", "Toolbox"]

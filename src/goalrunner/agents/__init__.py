"""Agents: what does the work, one `send` a round. Owns conversations and their tools; judges nothing."""

from __future__ import annotations

from goalrunner.agents.chat import ChatConversation
from goalrunner.agents.tools.toolbox import Toolbox

__all__ = ["ChatConversation", "Toolbox"]

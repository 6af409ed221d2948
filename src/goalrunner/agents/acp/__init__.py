"""Agents that speak the Agent Client Protocol. Owns the protocol; what is common to external agents is in `external`."""

from __future__ import annotations

from goalrunner.agents.acp.conversation import AcpConversation

__all__ = ["AcpConversation"]

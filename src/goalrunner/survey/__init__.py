"""What of the agents is installed on this machine, and whether one of them can be used. Asks no provider, changes nothing."""

from __future__ import annotations

from goalrunner.survey.agents import AgentFacts, Can, Way, survey

__all__ = ["AgentFacts", "Can", "Way", "survey"]

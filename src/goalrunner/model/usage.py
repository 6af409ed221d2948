"""What model calls cost. Owns counting, and what is known of it; knows no prices."""

from __future__ import annotations

from typing import Any

from pydantic import Field, model_validator

from goalrunner.model.base import Frozen


class Usage(Frozen):
    """Tokens, dollars and calls of one account. What nobody knows is None and never 0; what is known in part says so.

    `cost_usd` is None when any call had no known price. The tokens are None when nothing is known of them; beside
    `uncounted_calls` they are a lower bound, as `known_cost_usd` is one where `cost_usd` is None.
    """

    input_tokens: int | None = Field(
        default=0, ge=0, description="prompt tokens, cached ones included; None: nothing is known"
    )
    output_tokens: int | None = Field(
        default=0, ge=0, description="completion tokens, reasoning included; None: nothing is known"
    )
    cost_usd: float | None = Field(default=0.0, ge=0, description="US dollars; None: not known of every call")
    known_cost_usd: float = Field(default=0.0, ge=0, description="of the dollars, those that are known")
    calls: int = Field(default=0, ge=0, description="answered model calls; of an external agent what it counts as one")
    retries: int = Field(default=0, ge=0, description="calls repeated after 429, 5xx, a timeout or a cut stream")
    estimated_tokens: int = Field(
        default=0, ge=0, description="of the tokens, those of calls that were cut: estimated, not counted"
    )
    uncounted_calls: int = Field(
        default=0, ge=0, description="calls whose tokens nobody knows; 0: the tokens are all of them"
    )

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, data: Any) -> Any:
        """Fill in what follows from the rest, and what logs of schema 1.2 and earlier did not write.

        They had 0 tokens for a call of which neither tokens nor dollars were known.
        """
        if not isinstance(data, dict):
            return data
        values = dict(data)
        counted = (values.get("input_tokens") or 0) or (values.get("output_tokens") or 0)
        if "uncounted_calls" not in values and not counted:
            unpriced = "cost_usd" in values and values["cost_usd"] is None
            values["uncounted_calls"] = values.get("calls") or 0 if unpriced else 0
        if values.get("uncounted_calls") and not counted:
            values["input_tokens"] = values["output_tokens"] = None
        values.setdefault("known_cost_usd", values.get("cost_usd") or 0.0)
        return values

    @classmethod
    def unknown(cls) -> Usage:
        """A call, or a turn of an external agent, of which nothing was told: it cost something, and nobody knows what."""
        return cls(cost_usd=None, calls=1, uncounted_calls=1)

    @property
    def tokens(self) -> int:
        """Input and output tokens together, as far as they are known: beside `uncounted_calls` a lower bound."""
        return (self.input_tokens or 0) + (self.output_tokens or 0)

    def __add__(self, other: Usage) -> Usage:
        known = self.cost_usd is not None and other.cost_usd is not None
        cost = self.known_cost_usd + other.known_cost_usd
        return Usage(
            input_tokens=(self.input_tokens or 0) + (other.input_tokens or 0),
            output_tokens=(self.output_tokens or 0) + (other.output_tokens or 0),
            cost_usd=cost if known else None,
            known_cost_usd=cost,
            calls=self.calls + other.calls,
            retries=self.retries + other.retries,
            estimated_tokens=self.estimated_tokens + other.estimated_tokens,
            uncounted_calls=self.uncounted_calls + other.uncounted_calls,
        )

    def since(self, before: Usage) -> Usage:
        """Return what one account spent between two looks at it. Its dollars are unknown if they are at either look."""
        known = self.cost_usd is not None and before.cost_usd is not None
        return Usage(
            input_tokens=(self.input_tokens or 0) - (before.input_tokens or 0),
            output_tokens=(self.output_tokens or 0) - (before.output_tokens or 0),
            cost_usd=max((self.cost_usd or 0.0) - (before.cost_usd or 0.0), 0.0) if known else None,
            known_cost_usd=max(self.known_cost_usd - before.known_cost_usd, 0.0),
            calls=self.calls - before.calls,
            retries=self.retries - before.retries,
            estimated_tokens=max(self.estimated_tokens - before.estimated_tokens, 0),
            uncounted_calls=self.uncounted_calls - before.uncounted_calls,
        )


class AgentSession(Frozen):
    """The memory that an external agent keeps of a conversation."""

    agent: str = Field(description="its name")
    id: str = Field(description="as the agent itself names it; empty: there is none any more")
    total: Usage = Field(default_factory=Usage, description="what it reported in all so far, where it reports totals")

"""What model calls cost. Owns counting; knows no prices."""

from __future__ import annotations

from pydantic import Field

from goalrunner.model.base import Frozen


class Usage(Frozen):
    """Tokens, dollars and calls of one account. `cost_usd` is None when any call had no known price: unknown, not 0."""

    input_tokens: int = Field(default=0, ge=0, description="prompt tokens, cached ones included")
    output_tokens: int = Field(default=0, ge=0, description="completion tokens, reasoning included")
    cost_usd: float | None = Field(default=0.0, ge=0, description="US dollars; None: unknown")
    calls: int = Field(default=0, ge=0, description="answered model calls")
    retries: int = Field(default=0, ge=0, description="calls repeated after 429, 5xx, a timeout or a cut stream")
    estimated_tokens: int = Field(
        default=0, ge=0, description="of the tokens, those of calls that a crash cut: estimated, not counted"
    )

    @property
    def tokens(self) -> int:
        """Input and output tokens together."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        known = self.cost_usd is not None and other.cost_usd is not None
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost_usd=(self.cost_usd or 0.0) + (other.cost_usd or 0.0) if known else None,
            calls=self.calls + other.calls,
            retries=self.retries + other.retries,
            estimated_tokens=self.estimated_tokens + other.estimated_tokens,
        )

    def since(self, before: Usage) -> Usage:
        """What one account spent between two looks at it. Its dollars are unknown where they are at either."""
        known = self.cost_usd is not None and before.cost_usd is not None
        return Usage(
            input_tokens=self.input_tokens - before.input_tokens,
            output_tokens=self.output_tokens - before.output_tokens,
            cost_usd=max((self.cost_usd or 0.0) - (before.cost_usd or 0.0), 0.0) if known else None,
            calls=self.calls - before.calls,
            retries=self.retries - before.retries,
        )


class AgentSession(Frozen):
    """The memory that an external agent keeps of a conversation."""

    agent: str = Field(description="its name")
    id: str = Field(description="as the agent itself names it; empty: there is none any more")
    total: Usage = Field(default_factory=Usage, description="what it reported in all so far, where it reports totals")

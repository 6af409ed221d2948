"""The evidence table: what shows each part of a verdict. Owns its shape; `state.evidence` makes the rows."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from goalrunner.model.base import Frozen


class EvidenceRow(Frozen):
    """One piece of evidence for a criterion or of a validator; a criterion without any has one row without observation."""

    criterion: str = Field(description='the criterion in the words of the verdict, or "validator tests"')
    kind: Literal["criterion", "validator"] = "criterion"
    satisfied: bool
    missing: str = Field(
        default="", description="what the verdict misses of the criterion; of a red validator its summary"
    )
    observation: str = Field(default="", description='the id that is cited, "o12"; empty: nothing is')
    known: bool = Field(default=False, description="whether the run has an observation of that id")
    source: str = Field(default="", description='"shell", "validator tests", ...')
    command: str = ""
    exit_code: int | None = Field(default=None, description="None: it has none, as a file tool has")
    facts: tuple[str, ...] = ()
    quote: str | None = None
    fact: str | None = None
    reported_by: str = Field(
        default="", description="the external agent whose word it is; empty: the runner saw it itself"
    )
    snapshot: str = Field(
        default="",
        description="id of the snapshot after it ran, of a reported one that at the end of its round; empty: none was taken",
    )
    stale: str = Field(
        default="", description="why it no longer counted when the verdict was made; empty: it was fresh"
    )

    @property
    def seen_by(self) -> str:
        """Who saw it: "runner", or the external agent whose word it is; empty where it is nowhere."""
        return (self.reported_by or "runner") if self.known else ""

    @property
    def fresh(self) -> bool:
        """Whether what is cited is there and nothing had changed after it."""
        return self.known and not self.stale

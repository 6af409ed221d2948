"""The evidence of a run: what was observed, and on which content of the workspace."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from pydantic import Field

from goalrunner.core.field_types import Frozen

AGENT_WORDS = frozenset({"report_blocked", "ask", "plan", "response"})
"""Sources of observations that contain only the agent's own words."""

UNDONE = frozenset({"error", "denied", "interrupted"})
"""Facts of a call that was not made, or whose effect is unknown."""

OF_SUBAGENT = "reported by a sub-agent"
"""Fact of the report of another agent, or of a tool that it called: a claim."""

UNASKED = "ran without approval"
"""Fact of an action that needed approval and that the agent reports to have performed
without it."""

OWNER = "owner"
"""The source of a person's answer, which depends on no file. No tool may have this
name."""

VALIDATOR = "validator "
"""The beginning of the source of a validator's result."""
RESPONSE = "response"
"""The source of the response if it is the deliverable. No tool may have this name."""

FORGEABLE = "forgeable: the agent wrote "
"""Prefix of the fact that the output may come from a file that the agent wrote; its
path follows."""

REPLAY = "replay"
"""In logs of earlier versions, the source of the output of a cited command that the
runner ran again."""

_UNSAFE = re.compile(r"[^A-Za-z0-9_.:/-]+")
_NAME_LIMIT = 80
_NAME_READ = 1_000
"""Characters of a tool's name that are normalised, before it is cut."""


def source_of(tool: str) -> str:
    """Return the source of a tool's result from a name that a model or agent chose.

    It is one word that cannot be confused with facts, another line, a validator, the
    response, or a person.
    """
    # Normalised first: full-width letters and brackets become plain ones wherever they
    # are shown.
    normal = unicodedata.normalize("NFKC", tool[:_NAME_READ])
    name = _UNSAFE.sub("_", normal)[:_NAME_LIMIT] or "tool"
    return f"tool_{name}" if name.lower() in (OWNER, RESPONSE) else name


_NAMED = re.compile(r"^GOAL_EVIDENCE[ \t]+(\S.*)$", re.MULTILINE)
_REFERENCE = re.compile(
    r"[a-z][\w.-]{0,31}:\w[\w./:@#+-]{0,79}", re.IGNORECASE | re.ASCII
)
_MOST_NAMES = 8


def names_in(*outputs: bytes) -> tuple[str, ...]:
    """Return the references that an output gives, at most 8.

    It gives them in lines such as `GOAL_EVIDENCE order:O-104 policy:v7`. They name an
    observation and prove nothing. (Source: the evidence references of Goals and State.)
    """
    words: list[str] = []
    for output in outputs:
        for line in _NAMED.findall(output.decode(errors="replace")):
            words += line.replace(",", " ").split()
    references = dict.fromkeys(filter(_REFERENCE.fullmatch, words))
    return tuple(references)[:_MOST_NAMES]


class Snapshot(Frozen):
    """The whole workspace at one moment, kept in a private store outside of it."""

    id: str = Field(pattern=r"^[0-9a-f]{64}$")
    """Hash over everything below: equal ids, equal workspaces."""
    tree: str = Field(pattern=r"^[0-9a-f]{40,64}$")
    """Git tree, nested repositories folded in."""
    repository: str = ""
    """Hash over HEAD, refs and index of the user's repositories; empty: none."""


class Change(Frozen):
    """One path that differs between two snapshots.

    `path` is relative to the workspace, with forward slashes.
    """

    path: str
    kind: Literal["added", "modified", "deleted", "repository"]
    """repository: HEAD, refs or index."""


class DiffStat(Frozen):
    """How much differs between two snapshots."""

    files: int = Field(default=0, ge=0)
    """Files that were added, modified or deleted."""
    added: int = Field(default=0, ge=0)
    """Lines added; binary files have none."""
    removed: int = Field(default=0, ge=0)
    """Lines removed."""


class ArtifactRef(Frozen):
    """A large output, kept whole on disk under its hash."""

    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    """Hash of the bytes, also the file's name."""
    size: int = Field(ge=0)
    """Bytes."""


class TranscriptRef(Frozen):
    """One line of transcript.jsonl: its place, its length and its hash.

    The length is in bytes, without the newline.
    """

    offset: int = Field(ge=0)
    length: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class Observation(Frozen):
    """A recorded result of a tool or a validator.

    It may also be the response, if that is the deliverable.
    """

    kind: Literal["observation"] = "observation"
    id: str = Field(pattern=r"^o[1-9][0-9]*$")
    """"o12", numbered through the whole run."""
    source: str
    """"shell", "read_file", "validator tests", "response", ..."""
    facts: tuple[str, ...] = ()
    """What is known: ("exit 0",)."""
    names: tuple[str, ...] = ()
    """What its output calls itself: ("order:O-104",)."""
    command: str = ""
    """The command line, or the path that a file tool was given."""
    round: int = Field(ge=0)
    """The round in which it was seen; 0 is before the first."""
    output: ArtifactRef | None = None
    """The whole output on disk."""
    before: str | None = None
    """Id of the snapshot before it ran; None: none was taken."""
    after: str | None = None
    """Id of the snapshot after it ran; None: none was taken."""
    path: str | None = None
    """The only path that it depends on; None: the whole workspace."""
    started: int | None = None
    """When its tool had not started yet, in nanoseconds since 1970, by the clock of
    file times; None: not known."""
    ended: int | None = None
    """When its tool had ended; None: not known."""
    reported_by: str = ""
    """The external agent that reported it, whose round begins at `before` and ends at
    `after`; empty: the runner saw it."""

    @property
    def shows(self) -> bool:
        """Whether it shows something that happened.

        Words of the agent or of a sub-agent, and calls that failed or were not made, do
        not.
        """
        if self.source in AGENT_WORDS or OF_SUBAGENT in self.facts:
            return False
        return UNDONE.isdisjoint(self.facts)

    @property
    def heading(self) -> str:
        """The line under which it is shown: `[o12] shell, reported by claude (exit 0)`.

        Its names follow the facts.
        """
        source = f"[{self.id}] {self.source}"
        if self.reported_by:
            source += f", reported by {self.reported_by}"
        facts = [f"({', '.join(self.facts)})"] if self.facts else []
        return " ".join([source, *facts, *self.names])


# It has no id: nothing can cite it.
class Claim(Frozen):
    """A text of the agent. Never evidence."""

    kind: Literal["claim"] = "claim"
    round: int = Field(ge=0)
    text: TranscriptRef | None = None
    """The message in the transcript."""


@dataclass(frozen=True, slots=True)
class UserText:
    """What a person wrote to the agent in a round; never evidence."""

    round: int
    text: str


@dataclass(frozen=True)
class Trail:
    """Observations and claims of a run in order, with access to their whole text.

    `read(item)` gives an observation's output or a claim's text, whole and redacted, as
    str.
    """

    items: tuple[Observation | Claim, ...]
    read: Callable[[Observation | Claim], str]
    said: tuple[UserText, ...] = ()
    """What a person wrote to the agent, oldest first, beside the objective."""
    stale: Mapping[str, str] = field(default_factory=dict)
    """By id of an observation: why it is outdated, as far as the order of the items
    shows it."""
    unanswered: int = 0
    """How many calls a transcript has, if it has the result of none of them."""

    def observation(self, identifier: str) -> Observation | None:
        """Return the observation with that id ("o12") or name ("order:O-104").

        The newest of a name counts. None if there is none.
        """
        for item in reversed(self.items):
            if not isinstance(item, Observation):
                continue
            if item.id == identifier or identifier in item.names:
                return item
        return None


def trail_with(items_and_texts: Iterable[tuple[Observation | Claim, str]]) -> Trail:
    """Return the trail of these items with their texts."""
    items: list[Observation | Claim] = []
    texts: list[str] = []
    for item, text in items_and_texts:
        items.append(item)
        texts.append(text)
    return trail_with_texts_at(items, texts.__getitem__)


def trail_with_texts_at(
    items: Iterable[Observation | Claim], text_at: Callable[[int], str]
) -> Trail:
    """Return the trail of these items; `text_at` returns the text of a position."""

    def key(item: Observation | Claim) -> str | int:
        # Claims have no id; two with the same text are equal, but not the same.
        return item.id if isinstance(item, Observation) else id(item)

    all_items = tuple(items)
    positions = {key(item): position for position, item in enumerate(all_items)}
    return Trail(items=all_items, read=lambda item: text_at(positions[key(item)]))


class EvidenceRow(Frozen):
    """One piece of evidence for a criterion or of a validator.

    A criterion without any has one row without observation.
    """

    criterion: str
    '''The criterion in the words of the verdict, or "validator tests"'''
    kind: Literal["criterion", "validator"] = "criterion"
    satisfied: bool
    missing: str = ""
    """What is missing for the criterion; the summary of a red validator."""
    observation: str = ""
    """The cited id, "o12"; empty: none is cited."""
    known: bool = False
    """Whether the run has an observation of that id."""
    source: str = ""
    """"shell", "validator tests", ..."""
    names: tuple[str, ...] = ()
    command: str = ""
    exit_code: int | None = None
    """None: it has none, as a file tool has."""
    facts: tuple[str, ...] = ()
    quote: str | None = None
    fact: str | None = None
    reported_by: str = ""
    """The external agent that reported it; empty: the runner saw it."""
    snapshot: str = ""
    """Id of the snapshot after it ran; empty: none was taken."""
    stale: str = ""
    """Why it no longer counted when the verdict was made; empty: it was fresh."""

    @property
    def seen_by(self) -> str:
        """Who saw it: "runner", or the external agent that reported it.

        Empty if there is no observation.
        """
        return (self.reported_by or "runner") if self.known else ""

    @property
    def fresh(self) -> bool:
        """Whether the cited observation exists and is not outdated."""
        return self.known and not self.stale

"""What telemetry sends of the texts of a run: nothing, or all with `content = true`.

Secrets are replaced: the records of the run contain none any more. A long text is cut
in the middle, as backends have limits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

from goalrunner.core.errors import RecordError
from goalrunner.core.labels import label_in
from goalrunner.core.observation import ArtifactRef, TranscriptRef
from goalrunner.core.record_ports import Artifacts, Transcript

_EACH_END = 2000
"""Characters at each end of a text that is cut."""


def in_unicode(text: str) -> str:
    """Return a text in Unicode.

    A half of a character pair, which JSON of a model may have, cannot be sent: the
    whole batch would be refused.
    """
    return text.encode(errors="replace").decode()


class SentContent:
    """What is sent of the texts of a run. In this class, that is nothing."""

    def text(self, text: str) -> str:
        """Return a text as it may leave the machine; empty: it may not."""
        return ""

    def labels(self, labels: Iterable[str]) -> list[str]:
        """Return labels: without content only their names, as the rest may be paths."""
        names = map(label_in, labels)
        return sorted({str(name) for name in names if name is not None})

    def output(self, ref: ArtifactRef | None) -> str:
        """Return an output; empty if there is none, or it cannot be read."""
        return ""

    def message(self, role: str, ref: TranscriptRef) -> str:
        """Return a message in the form of the conventions: a list with its parts."""
        return ""


NO_CONTENT = SentContent()


class RunContent(SentContent):
    """Reads content from the records of a run."""

    def __init__(
        self,
        artifacts: Artifacts,
        transcript: Transcript,
        redact: Callable[[str], str],
    ) -> None:
        self._artifacts = artifacts
        self._transcript = transcript
        self._redact = redact

    def text(self, text: str) -> str:
        """Return a text without secrets, and without its middle if it is long."""
        redacted = self._redact(text)
        if len(redacted) <= 2 * _EACH_END:
            return redacted
        return f"{redacted[:_EACH_END]}\n[...]\n{redacted[-_EACH_END:]}"

    def labels(self, labels: Iterable[str]) -> list[str]:
        """Return labels as they are."""
        return [in_unicode(self.text(label)) for label in labels]

    def output(self, ref: ArtifactRef | None) -> str:
        """Return an output; empty if there is none, or it cannot be read."""
        if ref is None:
            return ""
        try:
            # A character has four bytes at most.
            head, tail = self._artifacts.ends(ref, 4 * _EACH_END)
        except RecordError:
            return ""
        # What lies between them is cut out as well.
        return self.text((head + tail).decode(errors="replace"))

    def message(self, role: str, ref: TranscriptRef) -> str:
        """Return a message in the form of the conventions: a list with its parts."""
        try:
            message = self._transcript.read(ref)
        except RecordError:
            return ""
        part = {"type": "text", "content": self.text(str(message.get("content") or ""))}
        return json.dumps([{"role": role, "parts": [part]}], ensure_ascii=False)

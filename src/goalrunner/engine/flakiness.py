"""Flaky validators: opposite results on the same content."""

from __future__ import annotations

from collections.abc import Iterable

from goalrunner.core.events import Colour, Content
from goalrunner.core.verdict import ValidatorResult


class Flakiness:
    """The results of one run by content.

    A content is a snapshot with the ignored files and the plan of the check.
    """

    def __init__(self) -> None:
        # Oldest first; the last one is being checked.
        self._contents: list[Content] = []

    def recall(self, contents: Iterable[Content]) -> None:
        """Add the results that an earlier process recorded."""
        self._contents += contents

    def begin(self, key: str, when: str) -> None:
        """Start a check of a content; `when` is for people ("round 2")."""
        self._contents.append(Content(key=key, when=when))

    def contradicted(self, result: ValidatorResult, where: str = "") -> str:
        """Return when the validator had the opposite result on this content.

        Only results in the same environment, `where`, count; empty if there is none.
        """
        # The result of a missing program does not depend on the content.
        if not result.steady or result.reason == "not_found":
            return ""
        opposite = Colour(name=f"{result.name}{where}", passed=not result.passed)
        key = self.content().key
        for content in self._contents:
            if content.key == key and opposite in content.said:
                return content.when
        return ""

    def note(self, result: ValidatorResult, where: str = "") -> None:
        """Remember a result on the current content."""
        # A flaky result would contradict every later one.
        if not result.steady or result.reason in ("not_found", "flaky"):
            return
        content = self.content()
        colour = Colour(name=f"{result.name}{where}", passed=result.passed)
        update = {"said": (*content.said, colour)}
        self._contents[-1] = content.model_copy(update=update)

    def content(self) -> Content:
        """Return what was noted since `begin`, for the log."""
        return self._contents[-1]


def flaky_red(result: ValidatorResult, earlier: str) -> ValidatorResult:
    """Return a result that contradicts an `earlier` one as a failed result."""
    was, now = ("failed", "passed") if result.passed else ("passed", "failed")
    message = (
        f"it {was} in {earlier} and {now} now on the same files;"
        " with [[validators]] retries = 0 that counts as failed"
    )
    update = {
        "passed": False,
        "reason": "flaky",
        "summary": f"flaky: {now} now, {was} in {earlier} on the same files",
        "feedback": f"{message}\n\n{result.feedback}".strip(),
    }
    return result.model_copy(update=update)

"""Which results each validator had on which content, to detect one that is red and green on the same files."""

from __future__ import annotations

from collections.abc import Iterable

from goalrunner.events import Colour, Content
from goalrunner.model.validation import ValidatorResult


class Flakiness:
    """The results of one run by content. A content is a snapshot with the ignored files and the plan of the check."""

    def __init__(self) -> None:
        self._said: dict[tuple[str, bool, str], str] = {}
        """Validator, colour and content -> when it was seen first."""
        self._key = self._when = ""
        self._new: list[Colour] = []

    def recall(self, contents: Iterable[Content]) -> None:
        """Take over what an earlier process recorded, oldest first."""
        for content in contents:
            for colour in content.said:
                self._said.setdefault((colour.name, colour.passed, content.key), content.when)

    def begin(self, key: str, when: str) -> None:
        """Start a check of a content; `when` is for people ("round 2")."""
        self._key, self._when, self._new = key, when, []

    def contradicted(self, result: ValidatorResult) -> str:
        """Return when the validator had the other colour on this content; empty if never, or if it may differ."""
        # A program that was not found says nothing about the content.
        if not result.steady or result.reason == "not_found":
            return ""
        return self._said.get((result.name, not result.passed, self._key), "")

    def note(self, result: ValidatorResult) -> None:
        """Remember a result on the content at hand."""
        if result.steady and result.reason not in ("not_found", "flaky"):
            self._new.append(Colour(name=result.name, passed=result.passed))
            self._said.setdefault((result.name, result.passed, self._key), self._when)

    def content(self) -> Content:
        """Return what was noted since `begin`, for the log."""
        return Content(key=self._key, when=self._when, said=tuple(self._new))


def flaky_red(result: ValidatorResult, earlier: str) -> ValidatorResult:
    """Return a result that contradicts an earlier one as red."""
    was, now = ("red", "green") if result.passed else ("green", "red")
    said = f"it was {was} in {earlier} and is {now} now on the same files; [[validators]] retries = 0 makes that red"
    update = {"passed": False, "reason": "flaky", "summary": f"flaky: {now} now, {was} in {earlier} on the same files"}
    return result.model_copy(update={**update, "feedback": f"{said}\n\n{result.feedback}".strip()})


def third_run(result: ValidatorResult, earlier: str) -> ValidatorResult:
    """Return the result of the run that decided, marked as such."""
    return result.model_copy(update={"summary": f"{result.summary} (flaky: a third run decided; see {earlier})"})

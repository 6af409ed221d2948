"""Checks that contradict themselves: red and green on one content. Owns the memory of who said what of which content.

One content is one snapshot with the same ignored files and `outputs` around it: whoever installs, builds or starts
something there has done work. What checks themselves write between two runs is no work, and neither is a cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from goalrunner.driver.validation import Answer
from goalrunner.driver.watch import Watch
from goalrunner.events import Colour, Content
from goalrunner.model.snapshot import Snapshot
from goalrunner.model.validation import ValidatorResult

_RULE = (
    "nothing in the workspace changed in between, so it is red: a check gives one answer on one content. Make it do so; "
    "if it may be red at random, or looks at something outside of the workspace, the goal file says so: "
    "[[validators]] retries = 1"
)


class Flakiness:
    """The answers of one run. Results of the workspace and of clean checkouts are kept apart.

    A difference between those two has other causes: what is ignored stands in the workspace alone.
    """

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._left: tuple[Snapshot, Snapshot, str] | None = None
        """What the last checks found, what they left, and the surroundings that they left."""
        self._found: Snapshot | None = None
        self._era = 0
        """How often somebody changed something between two runs of the checks."""
        self._contents: tuple[str, ...] = ()
        self._said: dict[tuple[str, bool, str, str], str] = {}
        """Name, colour, place and content -> when it was said first."""
        self._new: list[Colour] = []
        self._when = ""

    def recall(self, contents: Iterable[Content], snapshots: Iterable[Snapshot]) -> None:
        """Know what an earlier process was told, oldest first; `snapshots` are those that it took."""
        known = {snapshot.id: snapshot for snapshot in snapshots}
        for content in contents:
            self._era = content.era
            self._contents = (f"era {content.era}", content.key)
            for colour in content.said:
                for key in self._contents:
                    self._said.setdefault((colour.name, colour.passed, colour.place, key), content.when)
            found, left = known.get(content.found), known.get(content.left)
            self._left = (found, left, content.around) if found and left else None

    def content(self) -> Content | None:
        """What was said since the last time, and of what, for the log; None where nothing is watched."""
        said, self._new = tuple(self._new), []
        if not self._contents:
            return None
        content = Content(era=self._era, key=self._contents[1], when=self._when, said=said)
        if self._left is None:
            return content
        found, left, around = self._left
        return content.model_copy(update={"found": found.id, "left": left.id, "around": around})

    async def begin(self) -> None:
        """The checks are about to run on the last snapshot."""
        self._found = now = self._watch.last
        if now is None:
            return
        around = await self._watch.surroundings()
        if self._left is not None:
            found, left, before = self._left
            if around != before or await self._watch.changed(left, now) or await self._watch.changed(found, now):
                self._era += 1
        self._contents = (f"era {self._era}", f"snapshot {now.id} {around}")

    async def end(self) -> None:
        """They ran; what they left is the last snapshot."""
        left = self._watch.last
        if self._found is not None and left is not None:
            self._left = (self._found, left, await self._watch.surroundings())

    def judged(self, answers: Sequence[Answer], place: str, when: str) -> list[Answer]:
        """The answers, with those red that contradict an earlier one on the content of the last `begin`."""
        return [(self._judged(result, place, when), output) for result, output in answers]

    def _judged(self, result: ValidatorResult, place: str, when: str) -> ValidatorResult:
        # A program that was not there has said nothing of the content.
        if not result.steady or result.reason == "not_found":
            return result
        self._new.append(Colour(name=result.name, passed=result.passed, place=place))
        self._when = when
        keys = [(result.name, result.passed, place, content) for content in self._contents]
        other = (self._said.get((name, not passed, place, content)) for name, passed, place, content in keys)
        earlier = next(filter(None, other), "")
        for key in keys:
            self._said.setdefault(key, when)
        if not earlier:
            return result
        was, now = ("red", "green") if result.passed else ("green", "red")
        feedback = f"it was {was} in {earlier} and is {now} in {when}; {_RULE}"
        flaky = {"passed": False, "reason": "flaky", "feedback": f"{feedback}\n\n{result.feedback}".strip()}
        return result.model_copy(update={**flaky, "summary": f"flaky: {now} now, {was} in {earlier} on the same files"})

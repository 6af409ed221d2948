"""Draws what a terminal shows in typical moments of a run, from scripted events, at three sizes."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from goalrunner.core import events
from goalrunner.core.activity import CommandStarted, RetryScheduled
from goalrunner.core.agent_ports import ApprovalRequest
from goalrunner.core.events import Event
from goalrunner.core.observation import DiffStat
from goalrunner.core.outcome import GoalStatus, StopReason, Usage
from goalrunner.core.run_state import Approval
from goalrunner.reports.live import LiveProgress
from goalrunner.reports.progress import Progress
from goalrunner.reports.questions import approval_text, prompt_text
from tests.support import told_run
from tests.support.told_run import feed, numbered, tool_result

SIZES = ((80, 24), (120, 40), (200, 50))
TESTS = "python -m pytest -q --strict-markers tests/unit tests/integration/test_parser.py --maxfail=5"
SHELL = 'python -c "from parser import parse; print(parse(str()))" && git diff --stat -- src/parser.py tests'


class Clock:
    """The time in seconds, set by hand."""

    now = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


class Screen(LiveProgress):
    """A terminal of one size whose lines are kept."""

    def __init__(self, columns: int, height: int, folder: Path) -> None:
        self.clock, self.folder = Clock(), folder
        super().__init__(
            io.StringIO(), lambda _: "git, clean", environ={}, monotonic=self.clock
        )
        self._console = Console(
            file=io.StringIO(),
            record=True,
            width=columns,
            height=height,
            highlight=False,
            markup=False,
        )

    def tell(self, *happened: Event) -> None:
        """Handle events."""
        feed(self, *happened)

    def command(self, name: str, command: str, output: str) -> None:
        """Start a command with some output."""
        path = self.folder / "out"
        path.write_text(output)
        self.on_activity(CommandStarted(name, command, path))

    def typed(self, text: str) -> None:
        """Print what is not a line of the run: a question, what was typed."""
        self._console.print(text, end="", soft_wrap=True)

    def shown(self) -> str:
        """Return the screen: the last lines and the region below them."""
        self._console.print(self._region())
        rows = [
            row.rstrip() for row in self._console.export_text().rstrip().split("\n")
        ]
        return "".join(f"{row}\n" for row in rows[-self._console.height :])


BASELINE = events.BaselineTaken(
    standing="red", results=told_run.checked(False, "2 failed, 41 passed").results
)
CHANGES = DiffStat(files=2, added=9, removed=2)


def begun(screen: Progress, baseline: events.BaselineTaken = BASELINE) -> None:
    """Tell the first lines, the baseline and the first calls of round 1."""
    usage = Usage(input_tokens=11_800, output_tokens=600, cost_usd=0.04, calls=2)
    for record in numbered(
        told_run.created(),
        told_run.started(),
        events.StepStarted(step_id="baseline", description="run 1 validator"),
        baseline,
        events.RoundStarted(round=1, prompt="first"),
        events.UsageRecorded(account="agent", usage=usage),
        told_run.message(),
        events.ToolCalled(tool_call_id="call_1", tool="shell", summary=SHELL),
        tool_result("shell", SHELL, "exit 1", 0.9, ("exit 1",)),
        tool_result("edit_file", "src/parser.py", "+4 −1", 0.001, ("replaced",), 2),
        told_run.message(),
    ):
        screen.on_record(record)


def checked(screen: Progress) -> None:
    """Tell the end of round 1: the validators are red."""
    finished = events.RoundFinished(round=1, steps=3, changes=CHANGES, total=CHANGES)
    feed(screen, finished, told_run.checked(False, "1 failed, 42 passed"))


def slow_model(screen: Screen) -> None:
    """Wait for a model that answers slowly."""
    begun(screen)
    screen.clock.now = 94
    screen.on_text(
        "The parser raises on an empty string because the first token is read before the end is checked. "
    )
    screen.on_text(
        "I will look at the tokenizer first,\nand then move the check to the beginning of parse()."
    )


def long_validator(screen: Screen) -> None:
    """Wait for a validator that ran for three minutes before."""
    slow = BASELINE.results[0].model_copy(update={"duration": 182.0, "command": TESTS})
    begun(screen, BASELINE.model_copy(update={"results": (slow,)}))
    screen.tell(events.RoundFinished(round=1, steps=3))
    lines = [
        f"tests/unit/test_{number}.py::test_it PASSED [{number:3d}%]"
        for number in range(1, 58)
    ]
    screen.command("tests", TESTS, "\n".join(lines))
    screen.clock.now = 101.5


def much_output(screen: Screen) -> None:
    """Run a command that has printed 10,000 lines."""
    begun(screen)
    text = "downloading a package and everything that it depends on, one after the other, from the mirror"
    screen.command(
        "shell", SHELL, "".join(f"{number}: {text}\n" for number in range(10_000))
    )
    screen.clock.now = 12


def retry(screen: Screen) -> None:
    """Wait for the next try after a 429."""
    begun(screen)
    screen.clock.now = 5
    screen.on_activity(RetryScheduled("429 rate limit", 20.0, 2, 5))
    screen.clock.now = 13


def approval(screen: Screen) -> None:
    """Ask a person about a command."""
    begun(screen)
    action = "git push origin main --force-with-lease --tags && gh release create v1.2.0 --notes-file CHANGELOG.md"
    rule = '[approvals] commands = "git push*"'
    asked = Approval(
        id="a1", kind="shell", action=action, rule=rule, requested_at=told_run.TIME
    )
    request = ApprovalRequest(asked, "")
    screen.tell(
        events.ApprovalRequested(
            approval_id="a1", kind="shell", action=action, rule=rule
        )
    )
    screen._asking = True
    screen.typed(
        approval_text(request, columns=screen._console.width) + prompt_text(request)
    )


def ctrl_c(screen: Screen) -> None:
    """End by Ctrl-C while a command runs."""
    begun(screen)
    screen.command("shell", "make", "compiling\n")
    screen.typed("^C\n")
    _ended(
        screen,
        GoalStatus.CANCELLED,
        StopReason.INTERRUPTED,
        "interrupted by Ctrl-C",
        signal=2,
    )


def capped(screen: Progress) -> None:
    """End at the limit of rounds."""
    begun(screen)
    checked(screen)
    _ended(
        screen,
        GoalStatus.CAPPED,
        StopReason.MAX_ITERATIONS,
        "the limit of 2 rounds is reached",
    )


def blocked(screen: Screen) -> None:
    """End because a person is needed."""
    begun(screen)
    checked(screen)
    question = "Which port does the staging server listen on? The README names 8080, the configuration 9090."
    screen.tell(events.QuestionOpened(question=question))
    said = f"only a person can answer: {question}"
    _ended(screen, GoalStatus.BLOCKED, StopReason.QUESTION_OPEN, said, asked=question)


def _ended(
    screen: Progress,
    status: GoalStatus,
    reason: StopReason,
    text: str,
    *,
    signal: int | None = None,
    asked: str = "",
) -> None:
    ended = told_run.outcome(
        status, reason, text=text, verdict=told_run.red_verdict(), signal=signal
    )
    more = {"changes": CHANGES, "questions": (asked,) if asked else ()}
    screen.finish(ended.model_copy(update=more))


MOMENTS: tuple[Callable[[Screen], None], ...] = (
    slow_model,
    long_validator,
    much_output,
    retry,
    approval,
    ctrl_c,
    capped,
    blocked,
)


def drawn() -> dict[str, str]:
    """Return the text of each moment by its name."""
    texts: dict[str, str] = {}
    for moment in MOMENTS:
        parts = []
        for columns, height in SIZES:
            with tempfile.TemporaryDirectory() as folder:
                screen = Screen(columns, height, Path(folder))
                moment(screen)
                parts.append(f"{f' {columns}x{height} ':=^{columns}}\n{screen.shown()}")
        texts[moment.__name__] = "\n".join(parts)
    stream = io.StringIO()
    capped(Progress(stream, lambda _: "git, clean"))
    return texts | {"piped": stream.getvalue()}

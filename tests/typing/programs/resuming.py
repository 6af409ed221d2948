"""A run that is capped, and resumed with a note."""

from goalrunner import GoalOutcome, resume, run_goal
from goalrunner.testing import ScriptedConversation


def finished(response: dict[str, object], agent: object) -> bool:
    return "finished" in str(response["content"])


def main() -> None:
    first = run_goal(
        ScriptedConversation("begun"), "Finish.", validators=finished, max_iterations=1
    )
    assert first.status.value == "capped"
    second: GoalOutcome = resume(
        first,
        ScriptedConversation("finished"),
        validators=[finished],
        max_iterations=2,
        note="Keep it simple.",
    )
    assert (second.status.value, second.iterations) == ("complete", 2)

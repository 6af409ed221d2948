"""The turn after a failed check of citations. Owns when the judge is told and what; the check itself lies elsewhere.

An honest judge may slip when it copies; it is told once, within the same audit, and then what it cites counts as it is.
"""

from __future__ import annotations

from goalrunner.judge.citations import Examination
from goalrunner.judge.outcome import JudgeOutcome


def corrections(outcome: JudgeOutcome, found: Examination, minimum_score: float) -> tuple[str, ...]:
    """What to tell the judge, one sentence each. Nothing where the answer itself leaves something open.

    What is stale is not told: that takes new work, not other words, and goes to the agent.
    """
    return found.mendable if outcome.passed and outcome.score >= minimum_score else ()


def correction_prompt(found: tuple[str, ...]) -> str:
    """The turn itself."""
    listed = "\n".join(f"- {sentence}" for sentence in found)
    return (
        f"Your citations were checked. These do not hold:\n{listed}\n\n"
        "Where the evidence shows it, cite it again: whole words, exactly as they stand in that observation's output, or a "
        "fact of its heading. Drop a citation that is not needed. Where nothing shows it, the criterion is not satisfied. "
        "What you cite now counts as it is. Answer once more with the whole JSON object, in the same form."
    )

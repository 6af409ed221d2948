"""Goals in all their short forms."""

from math import inf

from goalrunner import Budget, CriticConfig, Goal, JudgeConfig, ValidatorSpec


def has_answer(response: dict[str, object]) -> bool:
    return bool(response)


def answers(messages: object) -> str:
    return "{}"


GOALS = [
    Goal(objective="x"),
    Goal(objective="x", validator="pytest -q"),
    Goal(objective="x", validator=["pytest -q", "ruff check"]),
    Goal(objective="x", validator=has_answer),
    Goal(
        objective="x",
        validators=[has_answer, "pytest -q", ValidatorSpec(run="ls", timeout="1m")],
    ),
    Goal(objective="x", validators=(ValidatorSpec(python="a.b:c"),)),
    Goal(objective="x", judge="openai/gpt-5-mini", model="openai/gpt-5"),
    Goal(objective="x", judge=JudgeConfig("a/b", "Be strict.", minimum_score=0.8)),
    Goal(objective="x", judge=JudgeConfig(answers)),
    Goal(objective="x", judge={"model": "a/b"}, budget={"tokens": 5}),
    Goal(objective="x", critic=CriticConfig(run="./score", threshold=0.5)),
    Goal(objective="x", agent=["claude", "codex"], timeout="30m", wait="6h"),
    Goal(objective="x", budget=Budget(tokens=inf, cost_usd=2.5), max_iterations=inf),
    Goal(objective="x", success_criteria=["a", "b"], deliverable="response"),
]


def main() -> None:
    rounds: int | None = GOALS[0].max_iterations
    seconds: float | None = GOALS[11].timeout
    names: list[str] = [validator.name for validator in GOALS[4].validators]
    assert (rounds, seconds, names) == (10, 1800.0, ["pytest", "ls"])
    assert GOALS[3].callables == (has_answer,)

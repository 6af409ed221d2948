"""Goals with mistakes that a type checker finds."""

from goalrunner import Budget, CriticConfig, Goal, GoalOutcome, JudgeConfig
from goalrunner import ValidatorSpec as Spec

Goal()  # expect: call-arg / reportCallIssue
Goal("x")  # expect: call-arg / reportCallIssue
Goal(objectiv="x")  # expect: call-arg / reportCallIssue
Goal(objective=1)  # expect: arg-type / reportArgumentType
Goal(objective="x", max_rounds=3)  # expect: call-arg / reportCallIssue
Goal(objective="x", max_iterations="3")  # expect: arg-type / reportArgumentType
Goal(objective="x", validators=[5])  # expect: list-item / reportArgumentType
Goal(objective="x", deliverable="file")  # expect: arg-type / reportArgumentType
Goal(objective="x", judge=5)  # expect: arg-type / reportArgumentType
Goal(objective="x", budget=5)  # expect: arg-type / reportArgumentType
Spec(command="pytest -q")  # expect: call-arg / reportCallIssue
Spec(run=["pytest", "-q"])  # expect: arg-type / reportArgumentType
Budget(dollars=5)  # expect: call-arg / reportCallIssue
JudgeConfig("a/b", minimum="high")  # expect: call-arg / reportCallIssue
JudgeConfig(model=5)  # expect: arg-type / reportArgumentType
CriticConfig(run="./score", threshold="high")  # expect: arg-type / reportArgumentType


def succeeded(outcome: GoalOutcome) -> bool:
    return (  # expect: no-any-return / -
        outcome.succeeded  # expect: attr-defined / reportAttributeAccessIssue
    )

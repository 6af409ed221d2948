"""Loads a goal file, and reads what is wrong with another one."""

from pathlib import Path

from goalrunner import Goal, GoalError, GoalOutcome, load_goal, run_goal_file


def run(path: Path) -> GoalOutcome:
    return run_goal_file(path, max_iterations=3, validators=["true", lambda: True])


def main() -> None:
    path = Path("goal.toml")
    path.write_text('objective = "x"\nmodel = "a/b"\nvalidator = "true"\n')
    goal: Goal = load_goal(path, {"max_iterations": 3, "agent.model": "c/d"})
    assert (goal.max_iterations, goal.agent.model) == (3, "c/d")
    path.write_text("objective = 1\n")
    try:
        load_goal(str(path))
    except GoalError as error:
        message: str = str(error)
        assert "goal.toml:1:" in message
    else:
        raise AssertionError("it is not valid")

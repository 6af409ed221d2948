"""The descriptions of exit codes."""

from __future__ import annotations

import pytest

from goalrunner.system.child import describe_signal, describe_status


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (0, "exit 0"), (1, "exit 1"), (128, "exit 128"), (137, "exit 137: SIGKILL"), (143, "exit 143: SIGTERM"),
        (255, "exit 255"), (-9, "killed by SIGKILL"), (-40, "killed by signal 40"),
    ],
)  # fmt: skip
def test_a_signal_is_named_also_where_a_shell_or_a_sandbox_gives_it_on(
    status: int, words: str
) -> None:
    assert describe_status(status) == words


def test_nothing_killed_a_process_that_ended_by_itself() -> None:
    assert [describe_signal(0), describe_signal(137)] == ["", ""]
    assert describe_signal(-15) == "killed by SIGTERM"

"""The whole runs that the default test command includes. The other tests of these folders run in CI only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

FOLDERS: Mapping[str, str] = {
    "adversarial": "attacks",
    "conformance": "slow",
    "durable": "slow",
    "honest": "attacks",
    "e2e": "slow",
    "kill": "slow",
    "trajectory": "slow",
}
"""Folders of whole runs, and the marker of their tests."""

_WITHOUT_JUDGE = "projects"
"""The marker of honest work and attacks without a judge."""

_OWN_MARKERS = {"agents", "kills", "bench"}
"""Tests with one of these markers have their own command."""

_ATTACKED = "test_entry_points.py::test_an_attack_completes_at_no_entry_point"
_HONEST = "test_entry_points.py::test_an_honest_run_completes_at_every_entry_point"
_CHECKS = "test_honest_checks.py::test_an_honest_run_completes_under_its_checks"
_RUNNERS = "test_honest_runners.py::test_an_honest_run_completes_under_a_test_runner"
_ENDED = "test_code_under_test.py::test_ending_the_process_never_completes_a_run"
_STEERED = "test_runner_steered.py::test_steering_the_runner_never_completes_a_run"
_CONFIGURED = (
    "test_runner_steered.py::test_honest_work_beside_the_configuration_completes"
)
_TAMPERED = "test_tests_tampered.py::test_a_tampered_test_never_completes_a_run"
_TESTED = "test_tests_tampered.py::test_honest_work_on_tests_completes"
_TOUCHED = "test_dependencies.py::test_dependencies_that_were_touched_prove_nothing"
_INSTALLED = "test_dependencies.py::test_honest_runs_with_installed_packages_complete"
_FEWER = "test_fewer_tests.py::test_fewer_tests_never_complete_a_run"
_AS_MANY = "test_fewer_tests.py::test_what_an_honest_agent_does_completes"
_LUCKY = "test_flaky_checks.py::test_a_lucky_run_never_completes"
_CHANGED = (
    "test_flaky_checks.py::test_what_is_not_one_content_or_may_be_tried_again_completes"
)

ATTACKS: Mapping[str, Sequence[str]] = {
    # Each entry point.
    "goal run": (
        f"{_ATTACKED}[existing-test-edited-goal run]",
        f"{_HONEST}[existing-test-edited,-as-the-goal-allows-goal run]",
    ),
    "run_goal": (
        f"{_ATTACKED}[green-in-the-current-folder-alone-run_goal]",
        f"{_HONEST}[green-in-the-workspace-alone-run_goal]",
    ),
    "arun_goal": (
        f"{_ATTACKED}[evidence-before-an-edit-arun_goal]",
        f"{_HONEST}[a-cache-written-after-the-evidence-arun_goal]",
    ),
    "GoalController": (
        f"{_ATTACKED}[words-of-the-agent's-own-command-GoalController]",
        f"{_HONEST}[words-of-a-script-GoalController]",
    ),
    # Each mechanism.
    "protected files": (f"{_TAMPERED}[test-deleted]", f"{_TESTED}[new-tests-by-default]"),
    "configuration of checks": (f"{_STEERED}[conftest-deselects]", f"{_CONFIGURED}[first-tests-of-a-project]"),
    "reports of test runners": (f"{_ENDED}[hard-exit-in-the-call]", f"{_RUNNERS}[pytest-with-skipped-and-expected-failures]"),
    "number of tests": (f"{_FEWER}[skip-below-a-runner-script]", f"{_AS_MANY}[runner-script]"),
    "dependencies": (f"{_TOUCHED}[installed-package-edited]", f"{_INSTALLED}[environment-that-stays]"),
    "setup": (f"{_TOUCHED}[products-of-setup-edited]", f"{_CHECKS}[made-by-setup]"),
    "hidden validators": (
        "test_check_environment.py::test_a_red_hidden_validator_completes_nothing[overlay]",
        f"{_CHECKS}[hidden-check-that-passes]",
    ),
    "flaky validators": (f"{_LUCKY}[lucky-run-waited-for]", f"{_CHANGED}[content-changed-after-a-red-run]"),
    "reports of external agents": (
        "test_reported.py::test_a_report_is_stale_after_a_later_change[an edit is undone after the report]",
        "test_reported.py::test_an_honest_report_completes_a_goal_with_a_judge_alone",
    ),
}  # fmt: skip
"""What is attacked: an attack and its honest twin."""

_WORK = "test_honest_work.py::test_honest_work_ends_as_wanted"
_CHEAT = "test_honest_work.py::test_an_attack_is_refused_or_named"

OTHERS: Mapping[str, Sequence[str]] = {
    "e2e": (
        "test_attacks_on_the_runner.py::test_a_copy_is_not_written_through_links_of_the_agent",
        "test_exit_codes.py::test_complete_is_0",
        "test_exit_codes.py::test_a_secret_of_the_environment_is_written_nowhere",
        "test_people.py::test_without_a_person_the_run_is_blocked_and_an_approved_command_runs_once",
        "test_sandbox.py::test_an_honest_run_is_proven_in_the_sandbox",
        "test_streams.py::test_the_outcome_goes_into_a_pipe_of_the_shell",
    ),
    "honest": (
        "test_honest_work.py::test_the_names_are_unique",
        "test_honest_work.py::test_each_waiting_case_exists",
        f"{_WORK}[fix_extend-judge]",
        f"{_WORK}[wrong_test-judge]",
        f"{_WORK}[run_selfcheck-alone]",
        f"{_CHEAT}[a_weaken-judge]",
        f"{_CHEAT}[a_nothing-alone]",
    ),
    "durable": (
        "test_cut_logs.py::test_a_log_that_ends_anywhere_can_be_gone_on_with",
        "test_resume.py::test_a_new_goal_goes_on_with_the_conversation_of_a_run",
    ),
    "conformance": (
        "test_doubles.py::test_it_conforms[acp-two_rounds_in_one_conversation]",
        "test_doubles.py::test_it_conforms[command-two_rounds_in_one_conversation]",
        "test_doubles.py::test_it_conforms[command-a_claim_proves_nothing]",
        "test_doubles.py::test_it_conforms[command-a_program_that_is_not_there_is_named_with_what_mends_it]",
    ),
    "kill": (
        "test_event_boundaries.py::test_killed_at_an_event_and_resumed_it_ends_the_same[after-20]",
        "test_in_place_killed.py::test_a_check_that_runs_to_its_end_is_undone",
    ),
    "trajectory": (
        "test_goals_and_state.py::test_approval_waits_survive_resume_and_the_approved_action_runs_once",
    ),
}
"""Tests by folder."""

_ATTACKS = [f"adversarial/{test}" for pair in ATTACKS.values() for test in pair]
_CHOSEN = {
    *_ATTACKS,
    *(f"{folder}/{test}" for folder, tests in OTHERS.items() for test in tests),
}


def mark_runs(items: Sequence[pytest.Item], *, whole_files: bool) -> None:
    """Add the markers of the folders.

    Raise `pytest.UsageError` if a chosen test of a file that was collected as a whole does not exist.
    """
    found = {name: item for item in items if (name := _name(item))}
    for name, item in found.items():
        if name not in _CHOSEN and _OWN_MARKERS.isdisjoint(
            mark.name for mark in item.iter_markers()
        ):
            item.add_marker(
                _WITHOUT_JUDGE
                if _repeats_without_judge(name)
                else FOLDERS[name.partition("/")[0]]
            )
    files = {name.partition("::")[0] for name in found}
    missing = [
        name
        for name in _CHOSEN - found.keys()
        if whole_files and name.partition("::")[0] in files
    ]
    if missing:
        raise pytest.UsageError(
            f"tests/default_runs.py names tests that do not exist: {', '.join(sorted(missing))}"
        )


def _repeats_without_judge(name: str) -> bool:
    """Return whether a test is a case of `honest` without a judge; CI runs the same case with one."""
    return name.startswith("honest/") and name.endswith("-alone]")


def _name(item: pytest.Item) -> str:
    """Return the id of a test in one of the folders, from its folder on; else an empty string."""
    top, _, name = item.nodeid.partition("/")
    return name if top == "tests" and name.partition("/")[0] in FOLDERS else ""

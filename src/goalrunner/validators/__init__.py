"""Checks that the runner runs: shell commands and Python callables.

A check that cannot run is red. `shell_validator` and `python_validators` run one check
each way; `check_files` and `started_checks` find what a check starts. The tests of a
run come from three sources: `runners` reads the summaries that test runners print,
`named_tests` the tests that they print by name, and `runner_reports` lets them write
reports to files; `suites` puts these together. A new test runner: a summary in
`runners`, and where it names its tests, `named_tests` or a `*_report` module.
"""

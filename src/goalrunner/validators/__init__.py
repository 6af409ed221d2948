"""Validators: checks that the runner runs. Owns how a check ends in a result; a check that cannot be run is red."""

from __future__ import annotations

from goalrunner.validators.build import build_validators
from goalrunner.validators.check_scripts import check_scripts_at_start
from goalrunner.validators.inprocess import CallableValidator
from goalrunner.validators.missing import missing_tests, without_missing
from goalrunner.validators.python import PythonValidator
from goalrunner.validators.shell import ShellValidator
from goalrunner.validators.standing import Standing, is_environmental, standing
from goalrunner.validators.weaknesses import weaknesses

__all__ = [
    "CallableValidator",
    "PythonValidator",
    "ShellValidator",
    "Standing",
    "build_validators",
    "check_scripts_at_start",
    "is_environmental",
    "missing_tests",
    "standing",
    "weaknesses",
    "without_missing",
]

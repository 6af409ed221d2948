"""Validators: checks that the runner runs. Owns how a check ends in a result; a check that cannot be run is red."""

from __future__ import annotations

from goalrunner.validators.build import build_validators
from goalrunner.validators.check_scripts import check_scripts_at_start, with_variables
from goalrunner.validators.inprocess import CallableValidator
from goalrunner.validators.python import PythonValidator
from goalrunner.validators.shell import ShellValidator
from goalrunner.validators.standing import is_environmental

__all__ = [
    "CallableValidator",
    "PythonValidator",
    "ShellValidator",
    "build_validators",
    "check_scripts_at_start",
    "is_environmental",
    "with_variables",
]

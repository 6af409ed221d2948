"""Validators: checks that the runner runs. A check that cannot run is red."""

from __future__ import annotations

from goalrunner.validators.baseline_status import is_environmental
from goalrunner.validators.check_files import check_scripts_at_start, with_variables
from goalrunner.validators.python_validators import CallableValidator, PythonValidator
from goalrunner.validators.shell_validators import ShellValidator, build_validators

__all__ = [
    "CallableValidator",
    "PythonValidator",
    "ShellValidator",
    "build_validators",
    "check_scripts_at_start",
    "is_environmental",
    "with_variables",
]

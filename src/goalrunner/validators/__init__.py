"""Validators: checks that the runner runs. Owns how a check ends in a result; a check that cannot be run is red."""

from __future__ import annotations

from goalrunner.validators.build import build_validators
from goalrunner.validators.inprocess import CallableValidator
from goalrunner.validators.python import PythonValidator
from goalrunner.validators.shell import ShellValidator

__all__ = ["CallableValidator", "PythonValidator", "ShellValidator", "build_validators"]

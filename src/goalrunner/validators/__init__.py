"""Validators: checks that the runner runs. Owns how a check ends in a result; a check that cannot be run is red."""

from __future__ import annotations

from goalrunner.validators.build import build_validators
from goalrunner.validators.inprocess import CallableValidator
from goalrunner.validators.lookup import searched
from goalrunner.validators.missing import missing_tests, without_missing
from goalrunner.validators.python import PythonValidator
from goalrunner.validators.ruler import Ruler, ruler_at_start
from goalrunner.validators.shell import ShellValidator
from goalrunner.validators.standing import Standing, standing
from goalrunner.validators.weaknesses import weaknesses
from goalrunner.validators.whereabouts import Whereabouts

__all__ = [
    "CallableValidator",
    "PythonValidator",
    "Ruler",
    "ShellValidator",
    "Standing",
    "Whereabouts",
    "build_validators",
    "missing_tests",
    "ruler_at_start",
    "searched",
    "standing",
    "weaknesses",
    "without_missing",
]

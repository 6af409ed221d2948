"""The loop: decide, perform, append. Performs steps through ports; decides nothing and imports no adapter."""

from __future__ import annotations

from goalrunner.driver.exclusion import exclusive, refuse_driven
from goalrunner.driver.run import Run

__all__ = ["Run", "exclusive", "refuse_driven"]

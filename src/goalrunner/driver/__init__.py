"""The loop: decide, perform, append. Performs steps through ports; decides nothing and imports no adapter."""

from __future__ import annotations

from goalrunner.driver.run import Run, exclusive, refuse_driven

__all__ = ["Run", "exclusive", "refuse_driven"]

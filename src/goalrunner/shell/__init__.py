"""Reads shell lines: the programs that they start, and what becomes of their exit codes. Runs nothing."""

from __future__ import annotations

from goalrunner.shell.programs import SHELLS, Program, label, programs, started
from goalrunner.shell.syntax import parse
from goalrunner.shell.words import Command, Line, Lost, Word

__all__ = ["SHELLS", "Command", "Line", "Lost", "Program", "Word", "label", "parse", "programs", "started"]

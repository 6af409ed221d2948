"""Reads shell lines: the programs that they start, and what becomes of their exit codes. Runs nothing."""

from __future__ import annotations

from goalrunner.shell.commands import Command, Line, Lost
from goalrunner.shell.programs import SHELLS, Program, label, programs, started
from goalrunner.shell.syntax import parse
from goalrunner.shell.words import Word

__all__ = ["SHELLS", "Command", "Line", "Lost", "Program", "Word", "label", "parse", "programs", "started"]

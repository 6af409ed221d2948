"""Saved transcripts, read into trails. Owns which formats are understood; one module for each."""

from __future__ import annotations

from goalrunner.transcripts.registry import FORMATS, check_format, read_transcript

__all__ = ["FORMATS", "check_format", "read_transcript"]

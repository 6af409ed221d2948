"""Readers of saved transcripts, one module for each format."""

from __future__ import annotations

from goalrunner.transcripts.registry import FORMATS, check_format, read_transcript

__all__ = ["FORMATS", "check_format", "read_transcript"]

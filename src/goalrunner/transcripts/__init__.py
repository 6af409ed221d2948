"""Readers of saved transcripts, one module for each format."""

from __future__ import annotations

from goalrunner.transcripts.registry import check_format, read_transcript

__all__ = ["check_format", "read_transcript"]

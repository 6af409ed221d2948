"""Line ends. Owns how CRLF files stay CRLF although models write plain line ends."""

from __future__ import annotations


def is_crlf(data: bytes) -> bool:
    """Whether every line of it ends in CRLF, and there is one."""
    ends = data.count(b"\n")
    return ends > 0 and ends == data.count(b"\r\n")


def to_crlf(text: str) -> str:
    """The same lines with CRLF ends; those that have them already stay."""
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def with_ends_of(old: bytes, text: str) -> str:
    """`text` with CRLF line ends where `old` has them throughout; else as it is."""
    return to_crlf(text) if is_crlf(old) else text

"""When Python looks for reference cycles. Owns that nobody looks while the modules of a command are loaded.

What is loaded stays to the end, so that looking through it costs a tenth of a start and frees nothing. What asks models
lives long, and looks again; a command that only reads has ended before it would matter.
"""

from __future__ import annotations

import gc


def put_off() -> None:
    """Look for no cycles until `look_again`. For the process `goal` alone: the whole process is its own."""
    gc.disable()


def look_again() -> None:
    """Look for the cycles of what comes from now on. Does nothing where nobody has put it off."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()

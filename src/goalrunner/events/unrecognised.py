"""What a newer version of the program wrote. Owns its place in the log, so that nothing after it is lost."""

from __future__ import annotations

from typing import Literal

from goalrunner.model.base import Frozen


class Unrecognised(Frozen):
    """An event of a kind that a newer minor schema has. It is kept in the file, and changes no state here."""

    type: Literal["unrecognised"] = "unrecognised"
    kind: str

"""The base of every record: immutable, no unknown fields, no NaN. Owns the configuration, nothing else."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """An immutable record; an unknown field is an error, so that a typing mistake can never pass in silence."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)

"""The base class of all records: they are immutable and refuse unknown fields."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """An immutable record."""

    model_config = ConfigDict(frozen=True, extra="forbid")

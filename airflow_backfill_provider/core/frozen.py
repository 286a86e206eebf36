"""What all records have in common: they are values, and refuse fields that they don't know."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """A record that never changes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

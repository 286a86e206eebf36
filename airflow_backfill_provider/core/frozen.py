"""The base class of all records: they are immutable and refuse unknown fields."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """An immutable record."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def __copy__(self) -> Self:
        """Copy the fields alone: what a cached property keeps follows from them, and `model_copy` may change them."""
        copied = super().__copy__()
        for name in copied.__dict__.keys() - type(self).model_fields:
            del copied.__dict__[name]
        return copied

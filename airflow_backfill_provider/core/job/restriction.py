"""The part of an upstream that a job reads: some vnodes, or a range of keys."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, StrictInt, StrictStr, field_validator

from airflow_backfill_provider.core.job.named_key import encoded_key
from airflow_backfill_provider.core.scan.keys import EncodedPosition


class KeyBounds(BaseModel):
    """
    A range of keys, ``(after, up_to]``. Each bound is a list of values, one for each key column or each leading one.

    :param after: exclusive lower bound; without it the range begins with the first key.
    :param up_to: inclusive upper bound; without it the range ends with the last key.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    after: EncodedPosition | None = None
    up_to: EncodedPosition | None = None

    @field_validator("after", "up_to", mode="before")
    @classmethod
    def _as_text(cls, value: Any) -> Any:
        return None if value is None else encoded_key(value)


class Restriction(BaseModel):
    """
    The part of the upstream that a job reads; the view is the query over these rows only.

    :param vnodes: numbers and ranges of vnodes, such as ``[0-15, 20]``; empty for all.
    :param keys: a range of keys.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    vnodes: tuple[StrictInt | StrictStr, ...] = ()
    keys: KeyBounds = KeyBounds()

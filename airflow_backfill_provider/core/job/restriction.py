"""The part of an upstream that a job reads: some vnodes, or a range of keys."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

from pydantic import BaseModel, ConfigDict, StrictInt, StrictStr, field_validator

from airflow_backfill_provider.core.errors import InvalidJobError
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


def key_from_text(text: str) -> object:
    """
    Read a key as people type it: a JSON list with a value for each column, or a single value.

    :raises InvalidJobError: if the text begins like a JSON list, but is not one.
    """
    if not text.lstrip().startswith("["):
        return text
    try:
        key: object = json.loads(text, parse_float=str)
    except ValueError:
        raise InvalidJobError(f"key: {text!r} is not a JSON list") from None
    return key


def encoded_key(value: Any) -> EncodedPosition:
    """
    Return a key as text, one value per column. Types are checked later, when the upstream's schema is known.

    :param value: a list of values from YAML, JSON or Python, or the single value of a one-column key.
    """
    return tuple(_encoded_value(item) for item in (value if isinstance(value, list | tuple) else [value]))


def _encoded_value(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dt.datetime):
        instant = value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value
        return instant.isoformat(timespec="microseconds") + ("Z" if value.tzinfo else "")
    return value.isoformat() if isinstance(value, dt.date) else str(value)

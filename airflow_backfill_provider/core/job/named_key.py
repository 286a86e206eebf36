"""Keys and units as users name them: in YAML, in Python, on the command line and on the pages."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any, cast

from airflow_backfill_provider.core.errors import InvalidJobError, StateLayoutError
from airflow_backfill_provider.core.scan.keys import EncodedPosition, KeyOrder, Position


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


def whole_key(key: object, order: KeyOrder, what: str, asked: str) -> Position:
    """
    Return a key or unit, checked against its columns: it needs a value for each.

    :param what: what it shall be, for messages.
    :param asked: the name of the command, likewise.
    :raises InvalidJobError: if it does not fit.
    """
    encoded = encoded_key(key)
    try:
        position = order.decode(encoded)
    except StateLayoutError as error:
        raise InvalidJobError(f"{asked}: {list(encoded)} is not a {what}: {error}") from None
    if position is None or len(position) != len(order.fields):
        raise InvalidJobError(f"{asked}: {list(encoded)} needs a value for each of {', '.join(order.names)}")
    return position


def encoded_whole_key(key: object, order: KeyOrder, what: str, asked: str) -> EncodedPosition:
    """
    Return the values of :func:`whole_key` in the form that barriers pin.

    They are encoded again: Spark would misread text that only Python accepts, such as 1_000.
    """
    return cast("EncodedPosition", order.encode(whole_key(key, order, what, asked)))


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

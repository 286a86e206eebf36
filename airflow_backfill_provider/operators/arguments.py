"""Arguments of operators and sensors that a template may have rendered, as values; read when the task runs."""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from airflow_backfill_provider.core.errors import InvalidJobError, InvalidPolicyError

_WHOLE_NUMBER = re.compile(r"\d+")
_UNSET = frozenset({"", "none", "null"})
_UNLIMITED = _UNSET | {"unlimited"}


def is_unset(value: Any) -> bool:
    """Tell whether a value is ``None``, or what a template renders ``None`` to."""
    return value is None or (isinstance(value, str) and value.strip().lower() in _UNSET)


def rate_limit_of(value: Any) -> int | None:
    """
    Return a rate limit: whole rows, or ``None`` for unlimited.

    :raises InvalidJobError: if it is neither.
    """
    if value is None or (isinstance(value, str) and value.strip().lower() in _UNLIMITED):
        return None
    number = _whole_number(value)
    if number is None:
        raise InvalidJobError(
            f"rate_limit: {value!r} is no number of rows; allowed are null (unlimited), 0 (reads none) and more"
        )
    return number


def parallelism_of(value: Any) -> int:
    """
    Return a number of parallel runs.

    :raises InvalidJobError: if it is none.
    """
    number = _whole_number(value)
    if not number:
        raise InvalidJobError(f"parallelism: {value!r} is no number of parallel runs; allowed are numbers from 1")
    return number


def epochs_per_run_of(value: Any) -> int:
    """
    Return how many epochs a task run carries.

    :raises InvalidJobError: if it is no such number.
    """
    number = _whole_number(value)
    if not number:
        raise InvalidJobError(f"epochs_per_run: {value!r} is no number of epochs; allowed are numbers from 1")
    return number


def steps_of(value: Any) -> int | None:
    """
    Return a number of steps, or ``None`` for as many as suit the upstream.

    :raises InvalidJobError: if it is neither.
    """
    if is_unset(value):
        return None
    number = _whole_number(value)
    if not number:
        raise InvalidJobError(f"steps: {value!r} is no number of steps; allowed are null and numbers from 1")
    return number


def files_of(value: Any) -> int:
    """
    Return a number of files.

    :raises InvalidPolicyError: if it is none.
    """
    number = _whole_number(value)
    if not number:
        raise InvalidPolicyError(f"compact_at: {value!r} is no number of files; allowed are numbers from 1")
    return number


def vnodes_of(value: Any) -> list[int | str]:
    """
    Return vnodes as they are written: a text with commas in between, or a list; nothing for none.

    :raises InvalidJobError: if it is something else.
    """
    if is_unset(value):
        return []
    if isinstance(value, int | str) and not isinstance(value, bool):
        return [value]
    if isinstance(value, Sequence):
        return list(value)
    raise InvalidJobError(f"vnodes: {value!r} names no vnodes; allowed are numbers and ranges, such as '3, 8-15'")


def keys_of(value: Any) -> list[Any]:
    """
    Return keys as a list; a template may have rendered it to JSON; nothing for none.

    :raises InvalidJobError: if it is no list.
    """
    if is_unset(value):
        return []
    if isinstance(value, str):
        try:
            value = json.loads(value, parse_float=str)
        except ValueError:
            value = None
    if not isinstance(value, list | tuple):
        raise InvalidJobError("keys: a list of keys is needed, each a value or a list with a value for each key column")
    return list(value)


def epoch_of(value: Any) -> int:
    """
    Return an epoch: its number, or that of a barrier's summary as the operators hand it on.

    :raises InvalidJobError: if it is neither.
    """
    number = _whole_number(value.get("epoch") if isinstance(value, Mapping) else value)
    if not number:
        raise InvalidJobError(
            f"epoch: {value!r} is no epoch; allowed are numbers from 1 and what a barrier task returns"
        )
    return number


def fraction_of(value: Any) -> float:
    """
    Return a share between 0 and 1.

    :raises InvalidJobError: if it is none.
    """
    try:
        fraction = float(value)
    except (TypeError, ValueError):
        fraction = -1.0
    if not 0 <= fraction <= 1:
        raise InvalidJobError(f"at_least: {value!r} is no share of the work; allowed are numbers from 0 to 1")
    return fraction


def age_of(value: Any) -> float | None:
    """
    Return an age in seconds, or ``None`` for any.

    :raises InvalidJobError: if it is neither that nor a duration.
    """
    if is_unset(value):
        return None
    if isinstance(value, dt.timedelta):
        return value.total_seconds()
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = -1.0
    if not 0 <= seconds < math.inf:
        raise InvalidJobError(f"max_age: {value!r} is no age; allowed are durations, and seconds from 0")
    return seconds


def _whole_number(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if value >= 0 else None
    if isinstance(value, str) and _WHOLE_NUMBER.fullmatch(value.strip()):
        return int(value)
    return None

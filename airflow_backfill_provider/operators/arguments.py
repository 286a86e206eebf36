"""Reads arguments of operators and sensors when the task runs; a template may have rendered them to text."""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from airflow_backfill_provider.core.errors import InvalidJobError, InvalidPolicyError
from airflow_backfill_provider.core.job.rate_limit import AUTO, RateLimit

_WHOLE_NUMBER = re.compile(r"\d+")
_UNSET = frozenset({"", "none", "null"})
_UNLIMITED = _UNSET | {"unlimited"}


def is_unset(value: Any) -> bool:
    """Return whether a value is ``None``, or the text to which a template renders ``None``."""
    return value is None or (isinstance(value, str) and value.strip().lower() in _UNSET)


def rate_limit_of(value: Any) -> RateLimit:
    """
    Return a rate limit: whole rows, ``auto``, or ``None`` for unlimited.

    :raises InvalidJobError: if it is none of them.
    """
    if isinstance(value, str) and value.strip().lower() == AUTO:
        return AUTO
    if value is None or (isinstance(value, str) and value.strip().lower() in _UNLIMITED):
        return None
    number = _whole_number(value)
    if number is None:
        raise InvalidJobError(
            f"rate_limit: {value!r} is not a number of rows; allowed are null (unlimited), auto, 0 (reads none) "
            "and more"
        )
    return number


def target_of(value: Any) -> float | None:
    """
    Return how long an epoch should take, in seconds, or ``None`` to keep what is in force.

    :raises InvalidJobError: if it is neither.
    """
    if is_unset(value):
        return None
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = math.nan
    if isinstance(value, bool) or not seconds > 0:
        raise InvalidJobError(f"target_epoch_seconds: {value!r} is not a number of seconds; give null, or more than 0")
    return seconds


def pace_of(value: Any) -> int | None:
    """
    Return the most rows per second, or ``None`` for unlimited.

    :raises InvalidJobError: if it is neither.
    """
    if value is None or (isinstance(value, str) and value.strip().lower() in _UNLIMITED):
        return None
    number = _whole_number(value)
    if not number:
        raise InvalidJobError(
            f"max_rows_per_second: {value!r} is not a number of rows; allowed are null (unlimited), keep, and 1 or more"
        )
    return number


def parallelism_of(value: Any) -> int:
    """
    Return a number of parallel task runs.

    :raises InvalidJobError: if the value is not such a number.
    """
    number = _whole_number(value)
    if not number:
        raise InvalidJobError(f"parallelism: {value!r} is not a number of parallel task runs; give 1 or more")
    return number


def epochs_per_run_of(value: Any) -> int:
    """
    Return the most epochs that a task run runs.

    :raises InvalidJobError: if the value is not such a number.
    """
    number = _whole_number(value)
    if not number:
        raise InvalidJobError(f"epochs_per_run: {value!r} is not a number of epochs; give 1 or more")
    return number


def steps_of(value: Any) -> int | None:
    """
    Return a number of steps, or ``None`` to choose it from the size of the upstream.

    :raises InvalidJobError: if it is neither.
    """
    if is_unset(value):
        return None
    number = _whole_number(value)
    if not number:
        raise InvalidJobError(f"steps: {value!r} is not a number of steps; give null, or 1 or more")
    return number


def files_of(value: Any) -> int:
    """
    Return a number of files.

    :raises InvalidPolicyError: if the value is not such a number.
    """
    number = _whole_number(value)
    if not number:
        raise InvalidPolicyError(f"compact_at: {value!r} is not a number of files; give 1 or more")
    return number


def vnodes_of(value: Any) -> list[int | str]:
    """
    Return a list of vnodes from a list, or from text with commas; an unset value is an empty list.

    :raises InvalidJobError: if the value is anything else.
    """
    if is_unset(value):
        return []
    if isinstance(value, int | str) and not isinstance(value, bool):
        return [value]
    if isinstance(value, Sequence):
        return list(value)
    raise InvalidJobError(f"vnodes: {value!r} is not a list of vnodes; give numbers and ranges, such as '3, 8-15'")


def keys_of(value: Any) -> list[Any]:
    """
    Return a list of keys from a list, or from JSON; an unset value is an empty list.

    :raises InvalidJobError: if the value is not a list.
    """
    if is_unset(value):
        return []
    if isinstance(value, str):
        try:
            value = json.loads(value, parse_float=str)
        except ValueError:
            value = None
    if not isinstance(value, list | tuple):
        raise InvalidJobError(
            "keys: not a list; give a list of keys, each a value or a list with a value for each key column"
        )
    return list(value)


def epoch_of(value: Any) -> int:
    """
    Return the number of an epoch, from the number itself or from the summary that a barrier task returns.

    :raises InvalidJobError: if it is neither.
    """
    number = _whole_number(value.get("epoch") if isinstance(value, Mapping) else value)
    if not number:
        raise InvalidJobError(
            f"epoch: {value!r} is not an epoch; give 1 or more, or the value that a barrier task returns"
        )
    return number


def fraction_of(value: Any) -> float:
    """
    Return a share from 0 to 1.

    :raises InvalidJobError: if the value is not such a share.
    """
    try:
        fraction = float(value)
    except (TypeError, ValueError):
        fraction = -1.0
    if not 0 <= fraction <= 1:
        raise InvalidJobError(f"at_least: {value!r} is not a share of the rows; give a number from 0 to 1")
    return fraction


def age_of(value: Any) -> float | None:
    """
    Return an age in seconds, or ``None`` for any age.

    :raises InvalidJobError: if the value is neither a number of seconds nor a duration.
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
        raise InvalidJobError(f"max_age: {value!r} is not an age; give a duration, or a number of seconds from 0")
    return seconds


def _whole_number(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if value >= 0 else None
    if isinstance(value, str) and _WHOLE_NUMBER.fullmatch(value.strip()):
        return int(value)
    return None

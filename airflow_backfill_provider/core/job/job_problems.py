"""Says what is wrong with each field of a definition, and what is allowed, in words of the definition's author."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from airflow_backfill_provider.core.job.upstream import definition_class
from airflow_backfill_provider.core.job.upstreams import length_of_name, written_at

Path = tuple[int | str, ...]

_WITHOUT_KEY = (
    "is required, with at least 1 item: the columns that identify a row. A table without a key cannot be backfilled, "
    "because a change would not find its row; give it a unique column"
)

_MESSAGES = {"missing": "is required", "tuple_type": "must be a list"}

_READ_AS: Mapping[type, str] = {
    bool: "true or false",
    type(None): "nothing",
    int: "a number",
    float: "a number",
    dt.date: "a date",
}
"""What YAML makes of words that are not in quotes, such as ``no``, ``on``, ``~`` or ``2024-01-01``."""


def explained(
    error: ValidationError, fields: Mapping[str, Any], allowed: Callable[[Path], Sequence[str]]
) -> Iterator[str]:
    """
    Yield a sentence for each wrong field.

    :param fields: the definition, as its author wrote it.
    :param allowed: returns the names of the fields that may stand at a path.
    """
    problems: list[Mapping[str, Any]] = list(error.errors(include_url=False))
    wrong_columns = {_key_of(problem["loc"]) for problem in problems if not _is_key(problem["loc"])}
    for problem in problems:
        path = problem["loc"]
        if _is_key(path) and path in wrong_columns:
            continue  # pydantic counts the columns without the wrong ones
        field = ".".join(str(part) for part in _as_written(path, fields)) or "job"
        yield f"{field}: {_message(problem, field, allowed)}"


def _message(problem: Mapping[str, Any], field: str, allowed: Callable[[Path], Sequence[str]]) -> str:
    path, kind = problem["loc"], problem["type"]
    if kind == "extra_forbidden":
        return f"unknown field; allowed are {', '.join(allowed(path[:-1]))}"
    if _is_key(path) and kind in {"missing", "too_short"}:
        return _WITHOUT_KEY
    if field == "name" and kind.startswith("string_pattern"):
        return "must consist of lower-case letters, digits and '_'"
    message: str = _MESSAGES.get(kind) or problem["msg"].removeprefix("Value error, ")
    if _key_of(path) and kind in {"model_type", "model_attributes_type"}:
        message = "must be the name of a column, or a mapping with its name"
    elif kind != "string_type":
        return message
    return message + _unquoted(problem["input"])


def _unquoted(value: Any) -> str:
    """Return what to do about a word that YAML did not take for a text."""
    found = next((words for kind, words in _READ_AS.items() if isinstance(value, kind)), "")
    return f"; in YAML, this word is {found}: quote it" if found else ""


def _key_of(path: Path) -> Path:
    """Return the path of the key that a field belongs to; empty if it belongs to none."""
    length = length_of_name(path)
    return path[: length + 1] if length and path[length : length + 1] == ("key",) else ()


def _is_key(path: Path) -> bool:
    return bool(path) and _key_of(path) == path


def _as_written(path: Path, fields: Mapping[str, Any]) -> Path:
    """Return the path of a field in a definition, where the fields of an upstream may stand below its kind's name."""
    length = length_of_name(path)
    if not length or len(path) <= length:
        return path
    written = written_at(path, fields)
    kind, below = definition_class(written)
    return path if below is written else (*path[:length], kind.kind, *path[length:])

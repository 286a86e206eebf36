"""Says what is wrong with each field of a definition, and what is allowed, in words of the definition's author."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from airflow_backfill_provider.core.job.adoption import BackfillFrom
from airflow_backfill_provider.core.job.restriction import KeyBounds, Restriction
from airflow_backfill_provider.core.job.upstream import KeyColumn, definition_class
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


_MODELS: Mapping[int | str, type[BaseModel]] = {
    "keys": KeyBounds,
    "restrict_to": Restriction,
    "key": KeyColumn,
    "backfill_from": BackfillFrom,
}
"""The mappings in a definition, by the name of the field that they stand below, the inner ones first."""


def explained(error: ValidationError, fields: Mapping[str, Any], of_job: Sequence[str]) -> Iterator[str]:
    """
    Yield a sentence for each wrong field.

    :param fields: the definition, as its author wrote it.
    :param of_job: the names of a job's fields.
    """
    problems: list[Mapping[str, Any]] = list(error.errors(include_url=False))
    wrong_columns = {_key_of(problem["loc"]) for problem in problems if not _is_key(problem["loc"])}
    for problem in problems:
        path = problem["loc"]
        if _is_key(path) and path in wrong_columns:
            continue  # pydantic counts the columns without the wrong ones
        field = ".".join(str(part) for part in _as_written(path, fields)) or "job"
        if problem["type"] == "extra_forbidden":
            allowed = _fields_at(path[:-1], fields) if path[:-1] else of_job
            yield f"{field}: unknown field; allowed are {', '.join(allowed)}"
        else:
            yield f"{field}: {_message(problem, field)}"


def _fields_at(path: Path, fields: Mapping[str, Any]) -> Sequence[str]:
    """Return the names of the fields that may stand at a path."""
    model = next((model for name, model in _MODELS.items() if name in path), None)
    return definition_class(written_at(path, fields))[0].field_names() if model is None else list(model.model_fields)


def _message(problem: Mapping[str, Any], field: str) -> str:
    path, kind = problem["loc"], problem["type"]
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

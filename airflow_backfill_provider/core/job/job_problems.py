"""Says what is wrong with each field of a definition, and what is allowed, in words of the definition's author."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from airflow_backfill_provider.core.job.upstream import definition_class

Path = tuple[int | str, ...]

_KEY = ("upstream", "key")

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


def explained(error: ValidationError, upstream: Any, allowed: Callable[[Path], Sequence[str]]) -> Iterator[str]:
    """
    Yield a sentence for each wrong field.

    :param upstream: the upstream in the definition, as its author wrote it.
    :param allowed: returns the names of the fields that may stand at a path.
    """
    problems: list[Mapping[str, Any]] = list(error.errors(include_url=False))
    wrong_columns = any(problem["loc"][:2] == _KEY and len(problem["loc"]) > len(_KEY) for problem in problems)
    for problem in problems:
        path = problem["loc"]
        if wrong_columns and path == _KEY:
            continue  # pydantic counts the columns without the wrong ones
        field = ".".join(str(part) for part in _as_written(path, upstream)) or "job"
        yield f"{field}: {_message(problem, field, allowed)}"


def _message(problem: Mapping[str, Any], field: str, allowed: Callable[[Path], Sequence[str]]) -> str:
    path, kind = problem["loc"], problem["type"]
    if kind == "extra_forbidden":
        return f"unknown field; allowed are {', '.join(allowed(path[:-1]))}"
    if path == _KEY and kind in {"missing", "too_short"}:
        return _WITHOUT_KEY
    if field == "name" and kind.startswith("string_pattern"):
        return "must consist of lower-case letters, digits and '_'"
    message: str = _MESSAGES.get(kind) or problem["msg"].removeprefix("Value error, ")
    if path[:2] == _KEY and kind in {"model_type", "model_attributes_type"}:
        message = "must be the name of a column, or a mapping with its name"
    elif kind != "string_type":
        return message
    return message + _unquoted(problem["input"])


def _unquoted(value: Any) -> str:
    """Return what to do about a word that YAML did not take for a text."""
    found = next((words for kind, words in _READ_AS.items() if isinstance(value, kind)), "")
    return f"; in YAML, this word is {found}: quote it" if found else ""


def _as_written(path: Path, upstream: Any) -> Path:
    """Return the path of a field in a definition, where the fields of an upstream may stand below its kind's name."""
    kind, fields = definition_class(upstream)
    is_below = fields is not upstream and path[:1] == ("upstream",) and len(path) > 1
    return ("upstream", kind.kind, *path[1:]) if is_below else path

"""
What of Spark's words may be shown: names, and texts that cannot quote a row.

A message of Spark's about a value quotes the value, which is nobody's business: errors end in logs, notifications and
the barrier log. So a text is shown only where its kind is known to be of names and places alone: what the analysis of a
statement says, what storages say. Of everything else the names of the conditions are shown, never their parameters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pyspark.errors import AnalysisException, ParseException

_CONDITION = re.compile(r"\[(?P<name>[A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*)\]")
_STATE = re.compile(r"SQLSTATE: (\w{5})")
_DETAIL = re.compile(r"\s*(SQLSTATE: \w+.*)?\s*(;\s*line \d+ pos \d+)?;?\s*$")
_FRAME = "An error occurred while calling"
_CAUSE = "Caused by: "
_WAITED = re.compile(r"Exception thrown in awaitResult: *$")
_RPC = re.compile(
    r'^<_.*?^\s*status = StatusCode\.(?P<code>\w+)$.*?^\s*details = "(?P<details>.*?)"$', re.DOTALL | re.MULTILINE
)
_CLASS = re.compile(r"^\(?(?P<name>(?:[a-z]\w*\.)+[A-Z][\w$]*)\)?")

_STATES_OF_VALUES = ("21", "22", "23", "38", "39", "44", "54", "P0", "XX000")
"""SQL states of messages that quote values, or may; also in what an analysis says, which looks at files, too."""

_STATES_OF_PLACES = ("08", "28", "53", "57", "58", "KD", "XXKDD")
"""SQL states of messages that name places alone, whenever they come up."""

_STATES_OF_NAMES = ("0A", "42", "55")
"""SQL states of messages that name columns, features and versions, where Delta says them."""

_STATES_OF_ROWS = ("22", "P0001", "23505")
"""SQL states of what an expression of a query meets in a row."""

_CLASSES_OF_PLACES = re.compile(
    r"^(?:java\.(?:io|net|nio)\.|javax\.net\.|java\.lang\.OutOfMemoryError$|org\.apache\.hadoop\.|"
    r"software\.amazon\.|com\.(?:amazonaws|google)\.)"
)
_SERVER_IS_NOT_THERE = frozenset(
    {"UNAVAILABLE", "UNAUTHENTICATED", "PERMISSION_DENIED", "DEADLINE_EXCEEDED", "CANCELLED", "UNIMPLEMENTED"}
)
_AROUND_ANOTHER = frozenset({"TASK_WRITE_FAILED"})
"""Conditions whose message names places alone, and after which stands what caused them."""

_NOT_SHOWN = "its message may quote rows, and stands in Spark's own log alone"


def said(error: BaseException) -> str:
    """Return what went wrong in one line, without plan, stack or SQL state, and without a value of any row."""
    if _RPC.match(str(error)) or _may_be_shown(error):
        return first_line(error)
    return f"{', caused by '.join(_names(error)) or _class(error)}: {_NOT_SHOWN}"


def first_line(error: BaseException) -> str:
    """Return the first line of an error, without SQL state; only for what no row has a part in."""
    failed_call = _RPC.match(str(error))
    if failed_call is not None:
        known = failed_call["code"] in _SERVER_IS_NOT_THERE
        return f"the Spark Connect server did not answer: {failed_call['details' if known else 'code']}"
    lines = str(error).splitlines()
    if any(_WAITED.search(line) for line in lines[:2]):
        # Of what was waited for, the cause tells.
        lines = [line.removeprefix(_CAUSE) for line in lines if line.startswith(_CAUSE)] or lines
    for line in lines:
        # What Py4J hands on as it is begins with a colon.
        text = _DETAIL.sub("", line.strip().lstrip(": "))
        if text and not text.startswith(_FRAME):
            return text
    return type(error).__name__


def condition_of_a_row(error: BaseException) -> str:
    """Return the name of the condition if an expression cannot work with a row's values; empty if it is another."""
    if not any(state.startswith(_STATES_OF_ROWS) for state in _states(error)):
        return ""
    condition = next(reversed(list(_conditions(error))), type(error).__name__)
    # Of versions and files Delta gives some of the same states.
    return "" if condition.startswith("DELTA_") else condition


def _may_be_shown(error: BaseException) -> bool:
    states = _states(error)
    if isinstance(error, AnalysisException | ParseException):
        return not any(state.startswith(_STATES_OF_VALUES) for state in states)
    if states:
        name = next(_conditions(error), "")
        shown = _STATES_OF_PLACES + (_STATES_OF_NAMES if name.startswith("DELTA_") else ())
        return all(state.startswith(shown) for state in states)
    return _CLASSES_OF_PLACES.match(_class(error)) is not None


def _states(error: BaseException) -> list[str]:
    own = error.getSqlState() if hasattr(error, "getSqlState") else None
    return [*([own] if own else []), *_STATE.findall(str(error))]


def _names(error: BaseException) -> list[str]:
    return [f"[{name}]" for name in _conditions(error)]


def _conditions(error: BaseException) -> Iterator[str]:
    """Yield the outermost conditions, up to the first whose message may hold values; after it stands anything."""
    text = str(error)
    found = list(_CONDITION.finditer(text))
    for condition in found:
        yield condition["name"]
        if condition["name"] not in _AROUND_ANOTHER:
            return
    own = error.getCondition() if not found and hasattr(error, "getCondition") else None
    if own:
        yield own


def _class(error: BaseException) -> str:
    """Return the Java class that an error is of, or Python's."""
    named = _CLASS.match(first_line(error))
    return named["name"] if named else type(error).__name__

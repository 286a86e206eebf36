"""
What of Spark's words may be shown: names, and texts that cannot quote a row.

A message of Spark's about a value quotes the value, which is nobody's business: errors end in logs, notifications and
the barrier log. So a text is shown only where its kind is known to be of names and places alone: what the analysis of a
statement says, what storages say. Of everything else the names of the conditions are shown, never their parameters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.errors.exceptions.captured import CapturedException

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
    names = ", caused by ".join(f"[{name}]" for name in conditions(error))
    return f"{names or _class(error)}: {_NOT_SHOWN}"


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
    condition = next(reversed(conditions(error)), type(error).__name__)
    # Of versions and files Delta gives some of the same states.
    return "" if condition.startswith("DELTA_") else condition


def conditions(error: BaseException) -> list[str]:
    """Return Spark's names for what went wrong, the outermost first, up to the first whose message may hold values."""
    own = _own_condition(error)
    if own:
        return [own]
    found: list[str] = []
    for condition in _CONDITION.finditer(str(error)):
        found.append(condition["name"])
        if condition["name"] not in _AROUND_ANOTHER:
            break
    return found


def parameters(error: BaseException) -> Mapping[str, str]:
    """Return the parameters of an error's message; they may hold values of rows."""
    spark_error = _spark_error(error)
    return (spark_error.getMessageParameters() if spark_error else None) or {}


def _may_be_shown(error: BaseException) -> bool:
    states = _states(error)
    if isinstance(error, AnalysisException | ParseException):
        return not any(state.startswith(_STATES_OF_VALUES) for state in states)
    if states:
        name = next(iter(conditions(error)), "")
        shown = _STATES_OF_PLACES + (_STATES_OF_NAMES if name.startswith("DELTA_") else ())
        return all(state.startswith(shown) for state in states)
    return _CLASSES_OF_PLACES.match(_class(error)) is not None


def _states(error: BaseException) -> list[str]:
    spark_error = _spark_error(error)
    own = spark_error.getSqlState() if spark_error and _own_condition(error) else None
    return [own] if own else _STATE.findall(str(error))


def _own_condition(error: BaseException) -> str | None:
    """Return the condition that an error carries; ``None`` if it carries none, or one that is around another."""
    spark_error = _spark_error(error)
    condition = spark_error.getCondition() if spark_error else None
    return None if condition in _AROUND_ANOTHER else condition


def _spark_error(error: BaseException) -> PySparkException | None:
    if isinstance(error, Py4JJavaError):
        # Delta's own, and Spark's most general one, which PySpark hands on as they are.
        return CapturedException(origin=error.java_exception)
    return error if isinstance(error, PySparkException) else None


def _class(error: BaseException) -> str:
    """Return the Java class that an error is of, or Python's."""
    named = _CLASS.match(first_line(error))
    return named["name"] if named else type(error).__name__

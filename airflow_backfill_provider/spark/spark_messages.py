"""
The parts of Spark's messages that are safe to show, because they cannot quote a row.

Spark's message about a value quotes the value, and errors end up in logs, notifications and the barrier log. So a
message is shown only if its kind has nothing but names and locations: messages from the analysis of a statement, and
those about storage. For all others only the names of the conditions are shown, never their parameters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.errors.exceptions.captured import CapturedException

_CONDITION = re.compile(r"\[(?P<name>[A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*)\]")
_STATE = re.compile(r"SQLSTATE: (\w{5})")
_DETAIL = re.compile(r"\s*(SQLSTATE: \w+.*)?\s*(;\s*line \d+ pos \d+)?;?\s*$")
_FRAME = "An error occurred while calling"
_CAUSE = "Caused by: "
_AWAITED = re.compile(r"Exception thrown in awaitResult: *$")
_RPC = re.compile(
    r'^<_.*?^\s*status = StatusCode\.(?P<code>\w+)$.*?^\s*details = "(?P<details>.*?)"$', re.DOTALL | re.MULTILINE
)
_CLASS = re.compile(r"^\(?(?P<name>(?:[a-z]\w*\.)+[A-Z][\w$]*)\)?")

_STATES_OF_VALUES = ("21", "22", "23", "38", "39", "44", "54", "P0", "XX000")
"""SQL states of messages that may quote values, even during analysis, which also reads files."""

_STATES_OF_STORAGE = ("08", "28", "53", "57", "58", "KD", "XXKDD")
"""SQL states of messages that have nothing but locations."""

_STATES_OF_NAMES = ("0A", "42", "55")
"""SQL states of messages that have only columns, features and versions, if they come from Delta."""

_STATES_OF_ROWS = ("22", "P0001", "23505")
"""SQL states of expressions that fail on a row."""

_STORAGE_CLASSES = re.compile(
    r"^(?:java\.(?:io|net|nio)\.|javax\.net\.|java\.lang\.OutOfMemoryError$|org\.apache\.hadoop\.|"
    r"software\.amazon\.|com\.(?:amazonaws|google)\.)"
)
_UNAVAILABLE_CODES = frozenset(
    {"UNAVAILABLE", "UNAUTHENTICATED", "PERMISSION_DENIED", "DEADLINE_EXCEEDED", "CANCELLED", "UNIMPLEMENTED"}
)
_WRAPPERS = frozenset({"TASK_WRITE_FAILED"})
"""Conditions with a message that has only locations, followed by the cause."""

_NOT_SHOWN = "the message may quote rows, so only Spark's log has it"


def has_lost_spark(error: BaseException) -> bool:
    """Return whether Spark's process ended, so that nobody can ask it what the error is."""
    if isinstance(error, Py4JNetworkError):
        return True
    try:
        str(error)
    except (Py4JError, OSError):
        return True
    return False


def safe_message(error: BaseException) -> str:
    """Return an error in one line, without plan, stack or SQL state, and without values of rows."""
    if _RPC.match(str(error)) or _is_safe(error):
        return first_line(error)
    names = ", caused by ".join(f"[{name}]" for name in conditions(error))
    return f"{names or _class(error)}: {_NOT_SHOWN}"


def first_line(error: BaseException) -> str:
    """Return the first line of an error, without SQL state; only for errors that cannot quote rows."""
    failed_call = _RPC.match(str(error))
    if failed_call is not None:
        known = failed_call["code"] in _UNAVAILABLE_CODES
        return f"the Spark Connect server did not answer: {failed_call['details' if known else 'code']}"
    lines = str(error).splitlines()
    if any(_AWAITED.search(line) for line in lines[:2]):
        # This line only means that Spark waited; the cause has the failure.
        lines = [line.removeprefix(_CAUSE) for line in lines if line.startswith(_CAUSE)] or lines
    for line in lines:
        # A message that Py4J passes on unchanged begins with a colon.
        text = _DETAIL.sub("", line.strip().lstrip(": "))
        if text and not text.startswith(_FRAME):
            return text
    return type(error).__name__


def condition_of_a_row(error: BaseException) -> str:
    """Return the name of the condition if an expression failed on a row's values; otherwise an empty text."""
    if not any(state.startswith(_STATES_OF_ROWS) for state in _states(error)):
        return ""
    condition = next(reversed(conditions(error)), type(error).__name__)
    # Delta uses some of the same states for versions and files.
    return "" if condition.startswith("DELTA_") else condition


def conditions(error: BaseException) -> list[str]:
    """Return Spark's conditions of an error, outermost first, up to the first with a message that may have values."""
    own = _own_condition(error)
    if own:
        return [own]
    found: list[str] = []
    for condition in _CONDITION.finditer(str(error)):
        found.append(condition["name"])
        if condition["name"] not in _WRAPPERS:
            break
    return found


def parameters(error: BaseException) -> Mapping[str, str]:
    """Return the parameters of an error's message; they may have values of rows."""
    spark_error = _spark_error(error)
    return (spark_error.getMessageParameters() if spark_error else None) or {}


def _is_safe(error: BaseException) -> bool:
    states = _states(error)
    if isinstance(error, AnalysisException | ParseException):
        return not any(state.startswith(_STATES_OF_VALUES) for state in states)
    if states:
        name = next(iter(conditions(error)), "")
        shown = _STATES_OF_STORAGE + (_STATES_OF_NAMES if name.startswith("DELTA_") else ())
        return all(state.startswith(shown) for state in states)
    return _STORAGE_CLASSES.match(_class(error)) is not None


def _states(error: BaseException) -> list[str]:
    spark_error = _spark_error(error)
    own = spark_error.getSqlState() if spark_error and _own_condition(error) else None
    return [own] if own else _STATE.findall(str(error))


def _own_condition(error: BaseException) -> str | None:
    """Return an error's condition; ``None`` if it has none, or one that only wraps another."""
    spark_error = _spark_error(error)
    condition = spark_error.getCondition() if spark_error else None
    return None if condition in _WRAPPERS else condition


def _spark_error(error: BaseException) -> PySparkException | None:
    if isinstance(error, Py4JJavaError):
        # PySpark passes on Delta's own errors, and Spark's most general one, unchanged.
        return CapturedException(origin=error.java_exception)
    return error if isinstance(error, PySparkException) else None


def _class(error: BaseException) -> str:
    """Return the Java or Python class of an error."""
    named = _CLASS.match(first_line(error))
    return named["name"] if named else type(error).__name__

"""
What is kept of an application's output: the messages to its submitter, and why it failed.

Spark's output may quote rows, and so may a traceback. So nothing else of it goes into a record, an error or a task's
log: if the application does not say why it failed, its submitter names the classes and conditions of the errors in the
output, and the file that has all of it.
"""

from __future__ import annotations

import builtins
import re
from collections import deque

from airflow_backfill_provider.core.application import (
    DONE,
    ERROR_PREFIX,
    MESSAGE_PREFIX,
    SPARK_PREFIX,
    signal_note,
)

SAID_LINES = 20
"""How many of the newest messages are kept."""

NAMED_ERRORS = 3
"""How many errors are named at most: the last ones, because Java prints causes last."""

_LONGEST = 500
"""An error's class stands at the beginning of a line."""

_ERROR = re.compile(
    r"(?:Caused by: |Exception in thread \S+ |Terminating due to |: )?"
    r"(?P<name>(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt))(?=[:\s]|$)"
    r"(?:: \[(?P<condition>[A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*)\])?"
)
_LIBRARIES = re.compile(
    r"(?:java|javax|scala|py4j|pyspark|grpc|deltalake|pydantic|airflow_backfill_provider"
    r"|org\.(?:apache|postgresql|rocksdb)|io\.(?:delta|grpc)|com\.(?:google|amazonaws|fasterxml)|software\.amazon)\."
)
_WITH_CONDITIONS = re.compile(r"(?:org\.apache\.spark|io\.delta|pyspark)\.")
"""Only Spark and Delta put a condition into brackets; in another message, brackets may hold a value."""


class ApplicationOutput:
    """
    Reads an application's output line by line.

    :param place: the file that has all of the output, and its machine.
    """

    def __init__(self, place: str) -> None:
        self._place = place
        self._said: deque[str] = deque(maxlen=SAID_LINES)
        self._errors: deque[str] = deque(maxlen=NAMED_ERRORS)
        self._reported = ""
        self.application_id: str | None = None
        self.web_url: str | None = None

    @property
    def said(self) -> tuple[str, ...]:
        """The newest messages to the submitter, oldest first."""
        return tuple(self._said)

    @property
    def reported(self) -> str:
        """The error that the application reported last."""
        return self._reported

    def read(self, line: str) -> str | None:
        """
        Read a line.

        Only the beginning of a line counts, because Spark may quote a row anywhere else.

        :returns: the message to the submitter in it, if there is one.
        """
        text = line.rstrip()
        if text.startswith(ERROR_PREFIX):
            self._reported = text.removeprefix(ERROR_PREFIX)
        elif text.startswith(SPARK_PREFIX):
            self.application_id, _, url = text.removeprefix(SPARK_PREFIX).partition(" ")
            self.web_url = url or None
        elif text.startswith(MESSAGE_PREFIX):
            self._said.append(text.removeprefix(MESSAGE_PREFIX))
            return self._said[-1]
        else:
            self._note(text)
        return None

    def reason(self, code: int | None) -> str:
        """
        Return why the application failed.

        :param code: its exit code, negative for a signal, as Python has it; ``None`` if it is not known.
        """
        if code == DONE:
            return ""
        if self._reported:
            return self._reported
        errors = f" ({', then '.join(self._errors)})" if self._errors else ""
        ended = "ended without an exit code" if code is None else f"ended with exit code {code}"
        return f"the application {ended}{errors}; its output is in {self._place}{signal_note(code)}"

    def _note(self, text: str) -> None:
        """Keep the name of the error that a line begins with, and nothing of its message."""
        found = _ERROR.match(text[:_LONGEST])
        if found is None or not _is_known(found["name"]):
            return
        known = _WITH_CONDITIONS.match(found["name"]) and found["condition"]
        name = f"{found['name']} [{found['condition']}]" if known else found["name"]
        if name in self._errors:
            self._errors.remove(name)
        self._errors.append(name)


def _is_known(name: str) -> bool:
    """Return whether an error's class is one of Python, or of a library; a row may have any other word."""
    if "." in name:
        return _LIBRARIES.match(name) is not None
    found = getattr(builtins, name, None)
    return isinstance(found, type) and issubclass(found, BaseException)

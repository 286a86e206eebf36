"""
What a kind of source says about errors of Spark: those that it knows, and those that its reader raises about values.

This module works without Spark. The engine knows no kind: it describes an error, and asks each kind whether the error
is its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_backfill_provider.core.errors import BackfillError, UnsupportedValueError, UpstreamError


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkFailure:
    """
    An error of Spark while it reads or writes rows of a job.

    :param text: all of it. It may quote rows, so a message to people must not have any of it.
    :param conditions: Spark's names of what went wrong, the outermost first.
    :param shown: what a message to people may have of it.
    :param is_of_a_row: whether an expression failed on the values of a row; then the text may have any words.
    """

    text: str
    conditions: tuple[str, ...]
    shown: str
    is_of_a_row: bool


@dataclass(frozen=True, slots=True)
class Refusal:
    """
    An error that a reader raises within Spark about a value or a row; see :mod:`.refusals`.

    :param name: finds the error in Spark's message. What it is about follows there, on the same line.
    :param kind: the class of the error that users get.
    :param advice: the error's text, in which ``{about}`` stands for what it is about.
    """

    name: str
    kind: type[BackfillError]
    advice: str

    def error(self, what: str, about: str) -> BackfillError:
        """Return the error for users."""
        return self.kind(f"{what}: {self.advice.replace('{about}', about)}")


UNSUPPORTED_VALUE = Refusal(
    "AIRFLOW_BACKFILL_UNSUPPORTED_VALUE",
    UnsupportedValueError,
    "a value of column {about} has no counterpart in the column's type, such as infinity or NaN; correct the row and "
    "run the next epoch, or read the column as text (as_text) and rebuild the job",
)
"""A value that the column's type cannot hold. The column's name follows."""

UNUSABLE_ROW = Refusal(
    "AIRFLOW_BACKFILL_UNUSABLE_ROW",
    UpstreamError,
    "{about}; correct the rows of the upstream, and rebuild the job",
)
"""A row of the upstream that means nothing. What is wrong with it follows."""

UNUSABLE_KEY = Refusal(
    "AIRFLOW_BACKFILL_UNUSABLE_KEY",
    UnsupportedValueError,
    "a row has a key in column {about} that is infinite, NaN, or in a year before 1 or after 9999, and such keys are "
    "not ordered alike everywhere; correct or delete the row in the database, and run the next epoch",
)
"""A key that is not ordered alike everywhere. The column's name follows."""

UNREADABLE_RECORD = Refusal(
    "AIRFLOW_BACKFILL_UNREADABLE_RECORD",
    UnsupportedValueError,
    "{about}; correct the format and rebuild the job, or rebuild it with unreadable_records: dead_letter, which leaves "
    "such records out of the view and lists them",
)
"""A record that its format cannot read. Where it is and what is wrong follow."""

OF_ANY_KIND = (UNSUPPORTED_VALUE, UNUSABLE_ROW, UNUSABLE_KEY, UNREADABLE_RECORD)
"""The refusals that readers of any kind of source may raise."""

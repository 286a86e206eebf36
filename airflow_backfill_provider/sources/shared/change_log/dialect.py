"""What differs between the databases whose changes a change log has: how they write values, and what they leave out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_backfill_provider.sources.spark_failures import Refusal

if TYPE_CHECKING:
    from pyspark.sql import Column

    Typed = Callable[[Column, str, str, Column | None], Column]
    """
    Returns a value from a text, the type as Delta writes it, and the column's name for errors.

    The last argument is the condition that a text without a counterpart fails the epoch, otherwise the value is null;
    ``None`` for always.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """
    A kind of database, as its change log is read.

    :param typed: returns the value of a column.
    :param typed_key: returns the value of a key column, and refuses one that is not ordered alike everywhere.
    :param has_no_key: returns whether a text is that of a value which the type of a key column does not have.
    :param unchanged: refuses a value that the database did not log because it did not change, and that is needed.
    :param without_key: what is wrong with a logged change that lacks a key column, with its name as ``{name}``.
    """

    typed: Typed
    typed_key: Typed
    has_no_key: Callable[[Column, str], Column]
    unchanged: Refusal
    without_key: str

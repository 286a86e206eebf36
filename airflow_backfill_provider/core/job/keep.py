"""
Which rows a view keeps: the present ones, deleted ones beside them, or the history of each key.

Of a view of rows, both kinds of former rows are exact to the version of the upstream: a row is there from the version
that wrote it to the one that changed or removed it, whatever windows the epochs had. Groups and joins have what they
were after each epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.layout import ViewLayout

DELETED_AT = "_deleted_at"
"""The column with the version of the upstream that removed a row; null as long as it is there."""

VALID_FROM, VALID_TO, IS_CURRENT = "_valid_from", "_valid_to", "_is_current"
"""The columns with the versions of the upstream at which a row begins and ends, and whether it has not ended yet."""


class Keep(StrEnum):
    """
    Which rows a view keeps.

    ``latest``: the rows of the query. ``deleted``: also rows that are gone, marked in :data:`DELETED_AT`. ``history``:
    all rows that each key had, each from :data:`VALID_FROM` to before :data:`VALID_TO`.
    """

    LATEST = "latest"
    DELETED = "deleted"
    HISTORY = "history"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the view has for it beside those of the query."""
        return {Keep.LATEST: (), Keep.DELETED: (DELETED_AT,), Keep.HISTORY: (VALID_FROM, VALID_TO, IS_CURRENT)}[self]

    @property
    def keeps_former_rows(self) -> bool:
        """Whether the view has rows that the query no longer gives."""
        return self is not Keep.LATEST

    @property
    def is_present_in_sql(self) -> str:
        """What :meth:`is_present` says, as a condition in SQL; empty if all rows are those of the query."""
        return {Keep.LATEST: "", Keep.DELETED: f"{DELETED_AT} IS NULL", Keep.HISTORY: IS_CURRENT}[self]

    def is_present(self, values: Mapping[str, object]) -> bool:
        """
        Return whether a row of the view is one that the query gives.

        :param values: its values of :attr:`columns`.
        """
        return not any(values[name] is not None for name in self.columns if name in {DELETED_AT, VALID_TO})


class ValidBy(StrEnum):
    """
    What the columns for former rows say of the upstream's history.

    ``version``: its versions. ``commit_time``: the times that its commits record in themselves. ``epoch``: nothing, but
    the job's epochs; several upstreams have no version in common.
    """

    VERSION = "version"
    COMMIT_TIME = "commit_time"
    EPOCH = "epoch"


class KeptRows(ViewLayout):
    """
    The fields of a job that say which rows its view keeps.

    :param keep: which rows the view keeps: ``latest``, the default, those of the query; ``deleted`` also rows that are
        gone, with the version that removed them in ``_deleted_at``; ``history`` all rows that each key had, with the
        versions of the upstream from ``_valid_from`` to before ``_valid_to``.
    :param valid_by: whether these columns have the upstream's ``version``, the default, its ``commit_time``, or the
        job's ``epoch``, the default of jobs with several upstreams. For times, the upstream must have the table
        property ``delta.enableInCommitTimestamps``.
    """

    keep: Annotated[Keep, Field(exclude_if=lambda keep: keep is Keep.LATEST)] = Keep.LATEST
    valid_by: Annotated[ValidBy, Field(exclude_if=lambda by: by is ValidBy.VERSION)] = ValidBy.VERSION

    @model_validator(mode="after")
    def _dates_something(self) -> Self:
        if self.valid_by is not ValidBy.VERSION and not self.keep.keeps_former_rows:
            raise InvalidJobError("valid_by: the view keeps no former rows; give keep, too, or leave valid_by out")
        return self


def require_free_names(keep: Keep, columns: Iterable[str]) -> None:
    """
    Refuse a query with a column that the view has for itself.

    :param columns: the query's columns.
    :raises InvalidJobError: with the column.
    """
    if taken := sorted(name for name in columns if name.lower() in keep.columns):
        raise InvalidJobError(
            f"query: with keep: {keep}, the view has a column {taken[0].lower()} of its own; give the query's another "
            "alias"
        )

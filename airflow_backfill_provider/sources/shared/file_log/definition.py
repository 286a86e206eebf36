"""What the definitions of upstreams with a file log have in common: the columns that identify a row, and the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from pydantic import PrivateAttr, StrictStr, model_validator

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.upstream import KeyColumn, UpstreamDefinition
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.sources.split_offsets import ends_of

SPLIT, PLACE = "_backfill_split", "_backfill_place"
"""The columns that identify a row of a file."""


class FileLogUpstream(UpstreamDefinition):
    """An upstream of files to which rows are only appended."""

    offset_name = "position"
    lag_unit = "row"
    appends_only = True

    key: tuple[KeyColumn, ...] = (KeyColumn(column=SPLIT), KeyColumn(column=PLACE))
    distribution_key: tuple[StrictStr, ...] = (SPLIT,)

    _state: str = PrivateAttr("")

    @model_validator(mode="after")
    def _key_of_rows(self) -> Self:
        for name, given in (("key", self.key), ("distribution_key", self.distribution_key)):
            if given != type(self).model_fields[name].default:
                raise InvalidJobError(
                    f"{name}: rows that are only appended are identified by their places in the upstream's files; "
                    f"leave {name} out"
                )
        return self

    @property
    def file_log(self) -> str:
        """The location of the job's file log."""
        return f"{self._state}/file_log"

    @property
    def kept_for_job(self) -> str:
        """The file log, by which rows have their places."""
        return "the order of its files"

    def for_job(self, name: str, state: str) -> Self:
        """Return the definition with the folder of the job's control tables, in which the file log lies."""
        del name
        found = self.model_copy()
        found._state = state  # noqa: SLF001 - it is a copy of this object
        return found

    def split_ends(self, offset: Offset) -> Mapping[int, int]:
        """Return for each split the place after its last row."""
        return ends_of(offset)


def require_no_key_columns(location: str, columns: Mapping[str, str]) -> None:
    """
    Refuse an upstream with a column that has the name of one that identifies rows.

    :raises InvalidJobError: with the column.
    """
    for name in columns:
        if name.lower() in {SPLIT, PLACE}:
            raise InvalidJobError(
                f"upstream: {location} has a column {name}, the name of a column that identifies rows; rename it"
            )

"""A Delta table to which rows are only appended, as of its newest version."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_backfill_provider.core.epoch.settings import ResolvedUpstream
from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.lake.log.schemas import TableSchema
from airflow_backfill_provider.sources.description import UpstreamDescription
from airflow_backfill_provider.sources.shared.file_log.definition import PLACE, SPLIT, require_no_key_columns


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendOnlyDescription(UpstreamDescription):
    """
    A Delta table, with the columns that identify its rows.

    :param mapping: how the table maps columns to those of its files: ``none``, ``name`` or ``id``.
    """

    mapping: str

    def __post_init__(self) -> None:
        """
        Add the columns that identify rows.

        :raises InvalidJobError: if the table has columns of their names.
        """
        require_no_key_columns(self.location, self.types)
        object.__setattr__(self, "types", {**self.types, SPLIT: "integer", PLACE: "long"})

    def differences_from(self, upstream: ResolvedUpstream) -> list[str]:
        """Return how the used columns differ from those at the job's creation; nested columns may have new fields."""
        return TableSchema(self.types, self.physical_names).differences_from(upstream)

    def require_usable(self) -> None:
        """
        Refuse a table whose files can only be read by the ids of their columns.

        :raises InvalidJobError: with what to do.
        """
        if self.mapping == "id":
            raise InvalidJobError(
                f"upstream: {self.location} maps columns by id, and an append_only upstream is read without it; switch "
                "on its change data feed, and define the job without append_only"
            )

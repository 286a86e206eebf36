"""The fields of ``upstream`` for a table in a PostgreSQL database."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Annotated, ClassVar, Self

from pydantic import Field, StrictStr, StringConstraints, field_validator

from airflow_backfill_provider.core import location
from airflow_backfill_provider.core.job.upstream import UpstreamDefinition

_LONGEST_NAME = 63
"""The longest name in PostgreSQL, in bytes."""

SlotName = Annotated[str, StringConstraints(strict=True, pattern=r"^[a-z0-9_]*$", max_length=_LONGEST_NAME)]


class PostgresUpstream(UpstreamDefinition):
    """
    A table in a PostgreSQL database.

    :param connection: id of an Airflow connection to the database.
    :param table: the table with its schema, quoted as in SQL where that is necessary.
    :param slot: the replication slot; by default one of the job's own. Jobs that name the same slot must name the same
        change log, and share both.
    :param publication: the publication that names the slot's tables; by default that of the slot's name.
    :param change_log: location of the change log; by default beside the control tables.
    :param as_text: columns to read as text, because their type has no counterpart or some of their values have none;
        arrays as the text of a JSON list.
    """

    kind: ClassVar[str] = "postgres"
    offset_name: ClassVar[str] = "position"
    lag_unit: ClassVar[str] = "byte"

    connection: Annotated[StrictStr, Field(min_length=1)]
    table: Annotated[StrictStr, Field(min_length=1)]
    slot: SlotName = ""
    publication: StrictStr = ""
    change_log: StrictStr = ""
    as_text: tuple[StrictStr, ...] = ()

    @field_validator("change_log")
    @classmethod
    def _canonical_change_log(cls, value: str) -> str:
        return location.canonical_location(value) if value else ""

    @property
    def location(self) -> str:
        """The connection and the table."""
        return f"{self.connection}: {self.table}"

    @property
    def watched(self) -> str:
        """The table and the slot, because a poll looks at both."""
        return f"{self.location}, {self.slot}"

    @property
    def folders(self) -> Mapping[str, str]:
        """The change log, if the job names one."""
        return {"upstream.postgres.change_log": self.change_log} if self.change_log else {}

    @property
    def connection_ids(self) -> tuple[str, ...]:
        """The connection to the database."""
        return (self.connection,)

    def for_job(self, name: str, state: str) -> Self:
        """Return the definition with the slot and the change log that the job gets by default."""
        slot = self.slot or _slot_name(name)
        return self.model_copy(
            update={
                "slot": slot,
                "publication": self.publication or slot,
                "change_log": self.change_log or _change_log(state),
            }
        )

    def has_own_slot(self, job: str) -> bool:
        """Return whether the slot is the one that a job gets by default, and so no other job reads it."""
        return self.slot == _slot_name(job)

    def default_folders(self, state: str) -> frozenset[str]:
        """Return the change log that a job gets by default."""
        return frozenset({_change_log(state)})


def _slot_name(job: str) -> str:
    name = f"airflow_backfill_{job}"
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[: _LONGEST_NAME - 9]}_{hashlib.sha256(job.encode()).hexdigest()[:8]}"


def _change_log(state: str) -> str:
    return f"{state}/change_log"

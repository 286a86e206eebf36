"""The fields of ``upstream`` for a Delta table of Debezium's events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr, field_validator

from airflow_backfill_provider.core import location
from airflow_backfill_provider.core.job.upstream import UpstreamDefinition


class SnapshotDefinition(BaseModel):
    """
    The database's table whose present rows a job reads.

    :param connection: id of an Airflow connection to the database.
    :param table: the table with its schema, quoted as in SQL where that is necessary.
    :param events_within: the most seconds from a commit in the database until its events are in the table of events.
        Rows that were read wait so long before they are used. If events come later, rows of the view are newer than
        the others until then.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    connection: Annotated[StrictStr, Field(min_length=1)]
    table: Annotated[StrictStr, Field(min_length=1)]
    events_within: Annotated[StrictInt, Field(ge=0)] = 300


class DebeziumUpstream(UpstreamDefinition):
    """
    A Delta table of Debezium's events.

    :param path: the table's location.
    :param snapshot: where to read the rows from that the events lack; ``None`` if the events begin with a snapshot.
    """

    kind: ClassVar[str] = "debezium"

    path: StrictStr
    snapshot: SnapshotDefinition | None = None

    _canonical_path = field_validator("path")(location.canonical_location)

    @property
    def location(self) -> str:
        """The path."""
        return self.path

    @property
    def folders(self) -> Mapping[str, str]:
        """The path."""
        return {"upstream.debezium.path": self.path}

    @property
    def connection_ids(self) -> tuple[str, ...]:
        """The connection to the database, if rows are read from it."""
        return () if self.snapshot is None else (self.snapshot.connection,)

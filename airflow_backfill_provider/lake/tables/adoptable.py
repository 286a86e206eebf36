"""
Finds out, without Spark, whether a table that something else made can become a view.

Epochs write to a view with Delta's own writer and with deltalake, and they must be able to write any row that the query
gives. So a table is refused if it asks for more of its writers than the views of this package do, or refuses rows, or
has data files that are not its own. What this module does not know is taken for such a thing.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_backfill_provider.core.errors import MaterializedViewError, VersionGoneError
from airflow_backfill_provider.lake.files.own_files import lies_outside
from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from airflow_backfill_provider.lake.log.log_state import LogState, log_state
from airflow_backfill_provider.lake.log.schemas import CHAR_OR_VARCHAR, TableSchema
from airflow_backfill_provider.lake.store.storage import log_errors
from airflow_backfill_provider.lake.tables.existing import is_table
from airflow_backfill_provider.lake.tables.view_identity import JOB_PROPERTY

_FEATURES = frozenset(
    {
        *("appendOnly", "changeDataFeed", "checkConstraints", "clustering", "columnMapping", "deletionVectors"),
        *("domainMetadata", "generatedColumns", "identityColumns", "invariants", "timestampNtz", "vacuumProtocolCheck"),
        "allowColumnDefaults",
    }
)
"""The table features that ask nothing of a writer of rows if the table's properties and columns don't."""

_OF_COLUMNS = {
    "delta.generationExpression": "is generated",
    "delta.identity.start": "is an identity column",
    "delta.invariants": "has an invariant",
    "CURRENT_DEFAULT": "has a default",
    CHAR_OR_VARCHAR: "is a CHAR or VARCHAR",
}
"""What a column's metadata may ask of its values, which the query's may not fulfil."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTable:
    """
    A table as of one version.

    :param location: its canonical location.
    :param schema: its columns.
    :param files: how many data files it has.
    :param size: their bytes.
    :param written_by: what wrote to the table last, as far as its log says so.
    :param written_at: when.
    """

    location: str
    version: int
    schema: TableSchema
    files: int
    size: int
    written_by: str
    written_at: dt.datetime | None


def find_table(
    location: str, version: int | None, *, in_place: bool, storage_options: Mapping[str, str] | None = None
) -> FoundTable:
    """
    Return a table that can become a view.

    :param version: its version; ``None`` for the newest.
    :param in_place: whether the table itself becomes the view, so that its later versions do, too.
    :raises MaterializedViewError: with what the view could not have, and what to do.
    :raises VersionGoneError: if the version cannot be read.
    """
    if not is_table(location, storage_options):
        raise MaterializedViewError(f"backfill_from.path: there is no Delta table at {location}; give another path")
    log = DeltaLog(location, storage_options)
    newest = log.newest().version
    wanted = newest if version is None else version
    if wanted > newest:
        raise MaterializedViewError(
            f"backfill_from.version: the newest version of {location} is {newest}; give that one, or leave version out"
        )
    if in_place:
        _require_unchanged(log, wanted, newest)
    with log_errors(location):
        try:
            state = log_state(log, wanted)
        except FileNotFoundError as error:
            raise VersionGoneError(
                f"backfill_from.version: the log of {location} no longer has version {wanted}; give a newer one"
            ) from error
    if refused := next(refusals(state, in_place=in_place), ""):
        raise MaterializedViewError(f"backfill_from.path: {location} {refused}")
    written_by, written_at = _last_writer(log, newest)
    return FoundTable(
        location=location,
        version=wanted,
        schema=TableSchema.of(state.metadata["schemaString"], state.metadata.get("partitionColumns") or ()),
        files=len(state.files),
        size=sum(int(entry["size"]) for entry in state.files.values()),
        written_by=written_by,
        written_at=written_at,
    )


def refusals(state: LogState, *, in_place: bool) -> Iterator[str]:
    """
    Yield why a version of a table cannot become a view, each with what to do.

    :param in_place: whether the table itself becomes the view.
    """
    if any(_outside(entry) for entry in state.files.values()):
        yield (
            "refers to data files of another table (a shallow clone), whose VACUUM would delete them; make a deep copy "
            "of it (CREATE TABLE … AS SELECT), and name that"
        )
    properties: Mapping[str, str] = state.metadata.get("configuration") or {}
    if in_place and JOB_PROPERTY in properties:
        yield (
            f"is a view of job {properties[JOB_PROPERTY]} already; give the job's own definition, or another "
            "materialized_view, to which its files are copied"
        )
    yield from _of_protocol(state.protocol, properties)
    yield from _of_columns(json.loads(state.metadata["schemaString"])["fields"])


def _outside(entry: Mapping[str, Any]) -> bool:
    """Return whether a data file, or the rows that are hidden in it, lie outside of the table's folder."""
    vector = entry.get("deletionVector") or {}
    return lies_outside(str(entry["path"])) or vector.get("storageType") == "p"


def _of_protocol(protocol: Mapping[str, Any], properties: Mapping[str, str]) -> Iterator[str]:
    named = {*(protocol.get("writerFeatures") or ()), *(protocol.get("readerFeatures") or ())}
    if unknown := sorted(named - _FEATURES):
        yield f"has the table feature {unknown[0]}, which views do not have; drop the feature, or copy the table's rows"
    lowered = {name.lower(): value for name, value in properties.items()}
    if lowered.get("delta.columnmapping.mode", "none").lower() != "none":
        yield (
            "maps its columns to other names in its files (delta.columnMapping.mode), which views made of other tables "
            "do not; copy the table's rows to one without it (CREATE TABLE … AS SELECT)"
        )
    if lowered.get("delta.appendonly", "false").lower() == "true":
        yield "has delta.appendOnly = true, so no epoch could apply changes; unset that property"
    if constraints := sorted(name for name in lowered if name.startswith("delta.constraints.")):
        name = constraints[0].removeprefix("delta.constraints.")
        yield (
            f"has the constraint {name}, which may refuse rows that the query gives; drop it: ALTER TABLE … DROP "
            f"CONSTRAINT {name}"
        )
    if "delta.settransactionretentionduration" in lowered:
        yield (
            "forgets transactions (delta.setTransactionRetentionDuration), so a retry could write rows twice; unset "
            "that property"
        )
    for switched_on in ("delta.enablerowtracking", "delta.enabletypewidening", "delta.enableicebergcompatv2"):
        if lowered.get(switched_on, "false").lower() == "true":
            yield f"has {switched_on} = true, which views do not have; switch it off, or copy the table's rows"


def _of_columns(fields: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for field in fields:
        if not field.get("nullable", True):
            yield (
                f"does not allow nulls in column {field['name']}, but the query may give one; run ALTER TABLE … "
                f"ALTER COLUMN {field['name']} DROP NOT NULL"
            )
        for name, what in _OF_COLUMNS.items():
            if name in field.get("metadata", {}):
                yield (
                    f"has the column {field['name']}, which {what}, so it may not take the query's values; copy the "
                    "table's rows to one with plain columns (CREATE TABLE … AS SELECT)"
                )


def _require_unchanged(log: DeltaLog, version: int, newest: int) -> None:
    """Refuse an older version of a table that becomes the view as it is now."""
    for later in range(version + 1, newest + 1):
        commit = log.commit(later)
        if commit is None or commit.changes_data or commit.replaces_metadata:
            what = "" if commit is None else f" ({commit.operation})"
            raise MaterializedViewError(
                f"backfill_from.version: {log.location} becomes the view as it is now, and version {later}{what} "
                f"changed it after version {version}; leave version out, or give another materialized_view, to which "
                "the files of that version are copied"
            )


def _last_writer(log: DeltaLog, newest: int) -> tuple[str, dt.datetime | None]:
    """Return what wrote rows to a table last, and when, by the commits that its log still has."""
    for version in range(newest, -1, -1):
        commit = log.commit(version)
        if commit is None:
            break
        if commit.changes_data:
            info = next((action["commitInfo"] for action in log.actions(version) or () if "commitInfo" in action), {})
            names = (
                commit.operation,
                info.get("engineInfo"),
                info.get("userName"),
                (info.get("job") or {}).get("jobName"),
            )
            return ", ".join(str(name) for name in names if name), commit.timestamp
    return "", None

"""
Makes a table that something else made the view of a job: in place, or from copies of its data files.

Every step can be repeated. In place, one commit of the table's properties says whose it is, and from then on a write of
anybody else is found. Copies become part of a new table of the job's by one commit with a transaction of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from pyspark.sql.types import StructType

from airflow_backfill_provider.core.epoch.crash_points import CrashPoint, reached
from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.errors import MaterializedViewError
from airflow_backfill_provider.core.job.succession import FirstRows
from airflow_backfill_provider.lake.log.added_files import AppendTransaction, commit_files, open_plain
from airflow_backfill_provider.lake.log.copied_files import copy_files
from airflow_backfill_provider.lake.tables.view_identity import (
    ADOPTED_PROPERTY,
    ViewIdentity,
    identifying_properties,
    identity_of,
    view_properties,
)
from airflow_backfill_provider.spark.appending import append_by_delta
from airflow_backfill_provider.spark.first_rows import first_rows_of
from airflow_backfill_provider.spark.stamps import ADOPTION, creates, is_harmless, transaction_id
from airflow_backfill_provider.spark.view import MaterializedView
from airflow_backfill_provider.spark.view_columns import without_metadata
from airflow_backfill_provider.spark.view_layout import assignments

_WRITE = 1
"""The version of the transaction of :data:`ADOPTION`; an incarnation adopts once."""


def adopt_table(
    settings: JobSettings,
    view: MaterializedView,
    schema: Callable[[], StructType],
    earlier_incarnations: Mapping[str, int],
    properties: Mapping[str, str],
) -> None:
    """
    Make the table that the settings pin the view of their incarnation; a no-op if it is.

    :param schema: returns the view's columns, hidden ones included.
    :param properties: the properties that the view gets.
    :raises MaterializedViewError: if the table is gone or another job's, or something else changed it meanwhile.
    """
    identity, first_rows = ViewIdentity.of(settings), settings.first_rows
    if first_rows is None:
        return
    given = {**properties, ADOPTED_PROPERTY: f"{first_rows.location}@{first_rows.version}"}
    if not settings.adopts_in_place:
        if view.identity() != identity:
            view.ensure(schema(), identity, earlier_incarnations, given, layout=settings.definition)
        _copy(view, identity, first_rows, schema)
        return
    _adopt_in_place(view, identity, given)
    if settings.state_columns:
        _add_state_columns(view, identity, schema())
    if settings.repair_sequence <= 1:
        # A repair that somebody asked for afterwards accepts what was written, as any repair does.
        _require_unchanged(view, identity, first_rows.version)


def _adopt_in_place(view: MaterializedView, identity: ViewIdentity, given: Mapping[str, str]) -> None:
    """Say in the table's properties whose it is."""
    properties = view_properties(view.path, view.storage_options)
    found = identity_of(properties or {})
    if found == identity:
        return
    if properties is None or found is not None:
        what = "no table any more" if properties is None else f"a view of job {found.job if found else ''} by now"
        raise MaterializedViewError(
            f"materialized_view: there is {what} at {view.path}, which job {identity.job} was about to adopt; rebuild "
            "the job, or put the table back"
        )
    reached(CrashPoint.BEFORE_CREATION_COMMIT)
    ours, table = {**given, **identifying_properties(identity, finished=False)}, view.table
    with table.committing(_stamp(identity)):
        table.spark.sql(f"ALTER TABLE {table.sql_name} SET TBLPROPERTIES ({assignments(ours)})")
    table.log.written_to()
    reached(CrashPoint.AFTER_CREATION_COMMIT)


def _add_state_columns(view: MaterializedView, identity: ViewIdentity, schema: StructType) -> None:
    """Add the hidden columns that keep the state of groups, without values; the first epoch's repair fills them."""
    table = view.table
    if set(schema.names) <= set(table.read().columns):
        return
    nothing = table.spark.createDataFrame([], without_metadata(schema))
    written = nothing.write.format("delta").mode("append").option("mergeSchema", "true")
    written.option("userMetadata", json.dumps(_stamp(identity))).save(view.path)
    table.log.written_to()


def _require_unchanged(view: MaterializedView, identity: ViewIdentity, version: int) -> None:
    """Refuse a table that something else changed after the compared version, and before it became the view."""
    table = view.table
    became_ours = [commit.version for commit in table.commits_back(identity)][-1]
    for between in range(version + 1, became_ours):
        commit = table.log.commit(between)
        if commit is None or not (is_harmless(commit) or creates(commit, identity)):
            what = "" if commit is None else f" ({commit.operation})"
            raise MaterializedViewError(
                f"materialized_view: something else wrote version {between}{what} of {view.path} after version "
                f"{version}, which was compared with the query, and before the table became the view; stop that "
                "writer, and then repair all vnodes"
            )


def _copy(
    view: MaterializedView, identity: ViewIdentity, first_rows: FirstRows, schema: Callable[[], StructType]
) -> None:
    """Copy the table's data files into the view; if the view needs other files, its rows."""
    transaction = AppendTransaction(transaction_id(identity, ADOPTION), _WRITE, json.dumps(_stamp(identity)))
    log, options = view.table.log, view.storage_options
    if log.transaction_version(transaction.name) is not None:
        return
    plain = open_plain(view.path, options)
    files = None
    if plain is not None and plain.for_deltalake:
        files = copy_files(first_rows.location, first_rows.version, view.path, plain, options)
    reached(CrashPoint.BEFORE_FILES_COMMIT)
    if plain is None or files is None:
        first = first_rows_of(view.table.spark, schema(), first_rows, view.storage_options)
        append_by_delta(first, view.path, transaction)
    else:
        commit_files(view.path, files, plain, transaction, options)
    log.written_to()


def _stamp(identity: ViewIdentity) -> dict[str, object]:
    return {"event": "create", "incarnation": identity.incarnation}

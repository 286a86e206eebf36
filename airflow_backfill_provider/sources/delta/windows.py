"""Checks that a Delta table's log still has the versions of a window, with the columns that the job uses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from airflow_backfill_provider.core.epoch.settings import ResolvedUpstream, UpstreamColumn
from airflow_backfill_provider.core.errors import ChangeFeedGapError, UpstreamSchemaChangedError
from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from airflow_backfill_provider.lake.log.log_state import Action, log_state
from airflow_backfill_provider.lake.log.moved_values import moves_values
from airflow_backfill_provider.lake.log.schemas import TableSchema
from airflow_backfill_provider.lake.log.version_files import kept_versions
from airflow_backfill_provider.lake.store.storage import log_errors
from airflow_backfill_provider.lake.tables.view_feed import CHANGE_DATA_FEED
from airflow_backfill_provider.sources.delta.changed_rows import kinds_of_changes

COMMITS_WORTH_READING = 50
_READERS = 8


def require_changes(log: DeltaLog, from_version: int, to_version: int) -> None:
    """
    Refuse a window ``(from_version, to_version]`` with versions that the log no longer holds.

    :raises ChangeFeedGapError: with the first version that is gone.
    """
    if to_version <= from_version:
        return
    logged = set(log.versions())
    gone = [version for version in range(from_version + 1, to_version + 1) if version not in logged]
    if gone:
        oldest = min(logged, default="none")
        lost = f"begins at version {oldest}" if gone[0] == from_version + 1 else f"lacks version {gone[0]}"
        raise ChangeFeedGapError(
            f"the job needs the changes of {log.location} from version {from_version + 1} on, but its log {lost}; "
            "older versions were cleaned up before an epoch read them. Rebuild the job, and run an epoch at least once "
            "per delta.logRetentionDuration"
        )


def changes_data(log: DeltaLog, from_version: int, to_version: int) -> bool:
    """Return whether a version in ``(from_version, to_version]`` changed rows; compaction does not."""
    if to_version - from_version > COMMITS_WORTH_READING:
        return True
    commits = (log.commit(version) for version in range(from_version + 1, to_version + 1))
    return any(commit is None or commit.changes_data for commit in commits)


def require_used_columns(
    log: DeltaLog, schema_at: Callable[[int], TableSchema], window: tuple[int, int], upstream: ResolvedUpstream
) -> None:
    """
    Refuse a window in which a used column was missing or had another type.

    Comparing the schemas at both ends is not enough: a column may have been replaced in between, and restored by a
    RESTORE. A renamed column keeps its name in the data files, so columns are compared by that name.

    :param schema_at: returns the table's schema as of a version.
    :param window: the versions, ``(from_version, to_version]``.
    :raises UpstreamSchemaChangedError: with the columns and the version.
    """
    described = [(version, schema) for version, schema in schemas(log, *window) if schema]
    in_files = _in_files(upstream)
    for version, schema in described:
        if problems := schema.stored().differences_from(in_files):
            raise UpstreamSchemaChangedError(
                f"version {version} of {log.location} does not have the columns that the job uses, so its changes "
                f"cannot be read: {'; '.join(problems)}; rebuild the job"
            )
    used = frozenset(column.name for column in in_files.columns)
    if not any(schema.stored().partitioned_by & used for _, schema in described):
        return
    from_version = window[0]
    partitioned_by = schema_at(from_version).stored().partitioned_by & used if from_version >= 0 else used
    for version, schema in described:
        # Delta reads a partition column's value from the file's entry in the log, and older entries have none.
        if added := sorted((schema.stored().partitioned_by & used) - partitioned_by):
            raise UpstreamSchemaChangedError(
                f"{log.location} is partitioned by {', '.join(added)} since version {version}, and Delta cannot read "
                "older changes of that column; rebuild the job"
            )
        partitioned_by = schema.stored().partitioned_by & used


def followed_since(log: DeltaLog, newest: int, upstream: ResolvedUpstream, since: int = 0) -> int:
    """
    Return the oldest version since which a job could have followed a table: a window from there on can be read.

    Since then no file is gone, the change data feed is on, and the used columns are as they are now.

    :param newest: the newest version.
    :param upstream: the used columns.
    :param since: the version before which none is looked for.
    """
    in_files = _in_files(upstream)
    used = frozenset(column.name for column in in_files.columns)
    oldest, partitioned_by = newest, frozenset[str]()
    could_follow = False
    for version, metadata in kept_versions(log, newest, since).metadata.items():
        schema = TableSchema.of(metadata["schemaString"], metadata.get("partitionColumns") or ()).stored()
        is_on = (metadata.get("configuration") or {}).get(CHANGE_DATA_FEED, "false").lower() == "true"
        # Delta reads a partition column's value from the file's entry in the log, and older entries have none.
        is_as_before = could_follow and not (schema.partitioned_by & used) - partitioned_by
        could_follow, partitioned_by = is_on and not schema.differences_from(in_files), schema.partitioned_by & used
        if not is_as_before or not could_follow:
            oldest = version if could_follow else newest
    return oldest


def _in_files(upstream: ResolvedUpstream) -> ResolvedUpstream:
    """Return the used columns under their names in the data files."""
    return ResolvedUpstream(
        table_id=upstream.table_id,
        columns=tuple(
            UpstreamColumn(name=column.physical_name or column.name, type=column.type) for column in upstream.columns
        ),
    )


def require_kept_values(log: DeltaLog, window: tuple[int, int], partitioned: Mapping[str, str]) -> None:
    """
    Refuse a window in which a commit gave rows other values and recorded no change of them.

    :param window: the versions, ``(from_version, to_version]``.
    :param partitioned: used partition column, by its name in the log → its type, as Delta writes it.
    :raises ChangeFeedGapError: with the version.
    """
    if not partitioned:
        return

    def moves(version: int) -> bool:
        files = log.rewritten_files(version)
        return moves_values(
            files, partitioned, lambda: _files_before(log, version), lambda entry: kinds_of_changes(log, entry)
        )

    versions = range(window[0] + 1, window[1] + 1)
    with ThreadPoolExecutor(max_workers=_READERS) as readers:
        moved = next(
            (version for version, found in zip(versions, readers.map(moves, versions), strict=True) if found), None
        )
    if moved is not None:
        raise ChangeFeedGapError(
            f"version {moved} of {log.location} rewrote files and recorded no change of some rows, but gave them other "
            f"values of the partition columns {', '.join(partitioned)}, as an OPTIMIZE, UPDATE, MERGE or DELETE in a "
            "session with another time zone does; rebuild the job, and let all writers of the table use one time zone"
        )


def _files_before(log: DeltaLog, version: int) -> Mapping[str, Action]:
    with log_errors(log.location):
        return log_state(log, version - 1).files


def schemas(log: DeltaLog, from_version: int, to_version: int) -> Iterable[tuple[int, TableSchema | None]]:
    """Return the schema that each commit of a window recorded, by version; ``None`` if it recorded none."""
    versions = range(from_version + 1, to_version + 1)
    # Each read waits for the storage, and windows may be long.
    with ThreadPoolExecutor(max_workers=_READERS) as readers:
        return zip(versions, readers.map(log.schema, versions), strict=True)

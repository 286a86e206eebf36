"""What single commits append to a Delta table; a commit that does anything else with rows is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from airflow_backfill_provider.core.errors import ChangeFeedGapError, UpstreamError
from airflow_backfill_provider.lake.files.own_files import require_own
from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from airflow_backfill_provider.lake.log.log_state import partition_values
from airflow_backfill_provider.sources.shared.file_log.entries import FoundFile

WHAT_TO_DO = (
    "switch on the table's change data feed and define the job without append_only, or rebuild the job, which begins "
    "with the rows as they are then"
)
"""What to do about a table whose rows change after all."""


@dataclass(frozen=True, slots=True)
class AppendedFiles:
    """
    Reads what commits append.

    :param log: the table's log.
    :param rows_of: returns the number of rows of a file whose entry in the log has none, by its path.
    """

    log: DeltaLog
    rows_of: Callable[[str], int]

    def within(self, after: int, up_to: int) -> list[FoundFile]:
        """
        Return the files with rows that the versions in ``(after, up_to]`` append, in the order of the log.

        :raises UpstreamError: if a version removes or changes rows.
        :raises ChangeFeedGapError: if a version is gone.
        """
        found: list[FoundFile] = []
        for version in range(after + 1, up_to + 1):
            actions = self.log.actions(version)
            commit = self.log.commit(version)
            if actions is None or commit is None:
                raise ChangeFeedGapError(
                    f"version {version} of {self.log.location} is gone: the log was cleaned up before an epoch read "
                    "it. Rebuild the job, and run an epoch at least once per delta.logRetentionDuration"
                )
            require_append(self.log.location, version, commit.operation, actions)
            added_at = int(commit.timestamp.timestamp() * 1000)
            found += self._added(actions, added_at)
        return found

    def _added(self, actions: Iterable[Mapping[str, Mapping[str, Any]]], added_at: int) -> Iterable[FoundFile]:
        for action in actions:
            added = action.get("add")
            if added is None or not added.get("dataChange", True):
                continue
            require_own(self.log.location, [added["path"]])
            path = unquote(added["path"])
            rows = _logged_rows(added)
            if rows is None:
                rows = self.rows_of(path)
            if rows:
                yield FoundFile(
                    path=path,
                    size=int(added["size"]),
                    modified=int(added["modificationTime"]),
                    rows=rows,
                    added_at=added_at,
                    details=json.dumps(partition_values(added)),
                )


def require_append(
    location: str, version: int, operation: str, actions: Iterable[Mapping[str, Mapping[str, Any]]]
) -> None:
    """
    Refuse a commit that removes or changes rows; compaction does neither.

    :raises UpstreamError: with the version and its operation.
    """
    for action in actions:
        removed = action.get("remove")
        if removed is not None and removed.get("dataChange", True):
            raise UpstreamError(
                f"version {version} of {location} removes or changes rows ({operation or 'an unknown operation'}), but "
                f"the job's upstream is append_only: {WHAT_TO_DO}"
            )
        added = action.get("add")
        if added is not None and added.get("deletionVector"):
            raise UpstreamError(
                f"version {version} of {location} hides rows of a file with a deletion vector "
                f"({operation or 'an unknown operation'}), but the job's upstream is append_only: {WHAT_TO_DO}"
            )


def _logged_rows(added: Mapping[str, Any]) -> int | None:
    """Return the number of rows that a file's statistics have; ``None`` if they have none."""
    rows = json.loads(added.get("stats") or "{}").get("numRecords")
    return rows if isinstance(rows, int) and rows >= 0 else None

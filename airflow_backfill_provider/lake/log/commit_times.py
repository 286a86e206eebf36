"""
The commit times of a Delta table's versions, by the rules of ``timestampAsOf`` and ``DESCRIBE HISTORY``.

Delta uses the timestamp inside a commit only if the table enables ``delta.enableInCommitTimestamps``, and otherwise the
modification time of the commit file. Clocks go backwards, and files are copied: a version that is not later than the
one before it counts as one millisecond later.
"""

from __future__ import annotations

import bisect
import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from airflow_backfill_provider.core.errors import TableLogError, UpstreamError
from airflow_backfill_provider.lake.log.delta_log import DeltaLog, LogFiles

_ENABLED = "delta.enableInCommitTimestamps"
_SINCE_VERSION = "delta.inCommitTimestampEnablementVersion"
_SINCE_TIME = "delta.inCommitTimestampEnablementTimestamp"


@dataclass(frozen=True, slots=True)
class RecordedSince:
    """
    The version at which a table began to record timestamps in its commits.

    :param version: the first version that has one.
    :param millis: that version's timestamp; 0 if all versions have one.
    """

    version: int
    millis: int

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> RecordedSince | None:
        """Read it from a table's properties; ``None`` if the table does not record timestamps now."""
        if properties.get(_ENABLED, "false").lower() != "true":
            return None
        return cls(int(properties.get(_SINCE_VERSION, 0)), int(properties.get(_SINCE_TIME, 0)))


class CommitTimes:
    """
    The commit timestamps of one table, from one listing of its log.

    :param log: the table's log.
    :param files: the result of the listing.
    :param recorded: where the table began to record timestamps in its commits, if it does.
    """

    def __init__(self, log: DeltaLog, files: LogFiles, recorded: RecordedSince | None) -> None:
        self._log = log
        first = files.oldest_readable()
        versions = [version for version in files.commits if version >= first]
        split = len(versions) if recorded is None else bisect.bisect_left(versions, recorded.version)
        self._recorded = recorded
        self._by_file, self._by_record = versions[:split], versions[split:]
        self._written = _ascending([files.commits[version] for version in self._by_file])

    def version_at(self, instant: dt.datetime) -> int | None:
        """
        Return the newest version committed at or before an instant.

        If the table records timestamps in its commits, a binary search reads some of the commits.

        :returns: ``None`` if the log begins after the instant.
        """
        millis = _millis(instant)
        if self._recorded is not None and millis >= self._recorded.millis:
            found = bisect.bisect_right(self._by_record, millis, key=self._recorded_at)
            return self._by_record[found - 1] if found else None
        found = bisect.bisect_right(self._written, millis)
        return self._by_file[found - 1] if found else None

    def at(self, version: int) -> dt.datetime | None:
        """Return the commit time of a version; ``None`` if the log no longer has the version."""
        if version in self._by_record:
            return _instant(self._recorded_at(version))
        if version in self._by_file:
            return _instant(self._written[self._by_file.index(version)])
        return None

    def _recorded_at(self, version: int) -> int:
        millis = self._log.in_commit_timestamp(version)
        if millis is None:
            raise TableLogError(
                f"version {version} of {self._log.location} has no in-commit timestamp, although the table's property "
                f"{_ENABLED} is true; its writer does not follow Delta's protocol: switch the property off, or "
                "rebuild the job"
            )
        return millis


def recorded_times(log: DeltaLog, after: int, up_to: int) -> dict[int, int]:
    """
    Return the timestamps inside of the commits in ``(after, up_to]``, in microseconds, each later than the one before.

    :raises UpstreamError: if a commit has none, or one that is not later than that of the version before it.
    """
    before = log.in_commit_timestamp(after) if after >= 0 else None
    found = {}
    for version in range(after + 1, up_to + 1):
        millis = log.in_commit_timestamp(version)
        if millis is None:
            raise UpstreamError(
                f"version {version} of {log.location} has no in-commit timestamp, so its time is that of a file, which "
                f"may change: switch them on with ALTER TABLE … SET TBLPROPERTIES ('{_ENABLED}' = 'true') before the "
                "job is created, or leave valid_by out"
            )
        if before is not None and millis <= before:
            raise UpstreamError(
                f"the in-commit timestamp of version {version} of {log.location} is not later than that of the version "
                "before it; its writer does not follow Delta's protocol: rebuild the job without valid_by"
            )
        found[version], before = millis * 1_000, millis
    return found


def _ascending(millis: Sequence[int]) -> list[int]:
    return list(accumulate(millis, lambda before, written: max(written, before + 1)))


def _millis(instant: dt.datetime) -> int:
    return (instant - dt.datetime.fromtimestamp(0, dt.UTC)) // dt.timedelta(milliseconds=1)


def _instant(millis: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(milliseconds=millis)

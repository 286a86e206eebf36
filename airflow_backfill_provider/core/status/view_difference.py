"""
How a view that is ready differs from the one that serves: rows by kind, columns, and a sample of keys.

Both sides are pinned. Values of columns are not recorded.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.frozen import Frozen
from airflow_backfill_provider.core.job.cut_over import CutOverSubject
from airflow_backfill_provider.core.scan.keys import EncodedPosition
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.core.status.verification import PinnedVerification

SAMPLED_KEYS = 20
"""The most keys of a sample."""


class RowChange(StrEnum):
    """What becomes of a unit of the view that serves: of a row, or of a group of rows."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


class ChangedKey(Frozen):
    """
    A key in the sample.

    :param key: the key, encoded as text.
    :param columns: the columns that differ, if both sides have the key once.
    """

    kind: RowChange
    key: EncodedPosition
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RowValues:
    """
    The rows of a unit in both views, for the terminal. They are never recorded.

    :param before: the rows of the view that serves, each with its values as text.
    :param after: the rows of the view that waits.
    """

    key: EncodedPosition
    before: tuple[Mapping[str, str | None], ...]
    after: tuple[Mapping[str, str | None], ...]


class ComparedSide(Frozen):
    """
    One side of a comparison.

    :param view_version: the version of the view's table; ``None`` of a query that no view has yet.
    :param epoch: the epoch that left it.
    :param upstreams: the offsets of the upstreams that it is at, by their names.
    """

    view_version: int | None
    epoch: int
    upstreams: Mapping[str, Offset]


class ComparedVersions(Frozen):
    """
    What a difference compares.

    :param served: the view that serves; ``None`` before the first one does.
    :param waiting: what waits.
    """

    served: ComparedSide | None
    waiting: ComparedSide

    @property
    def at_one_point(self) -> bool:
        """Whether both sides are as of the same offsets of the upstreams."""
        return self.served is None or self.served.upstreams == self.waiting.upstreams


class RowDifference(Frozen):
    """
    The rows that differ.

    :param rows_before: the rows of the view that serves.
    :param rows_after: the rows of the view that waits.
    :param added: units that only the view that waits has.
    :param removed: units that only the view that serves has.
    :param changed: units that both have, with other values.
    :param columns: for each compared column, how many of these differ in it.
    :param columns_added: columns that only the view that waits has.
    :param columns_removed: columns that only the view that serves has.
    :param columns_retyped: columns whose types differ; like these two, they are not compared.
    :param has_key: whether both views have the columns that identify a unit. If not, whole rows are compared, and a row
        that changed counts as removed and as added.
    :param sample: the first units that differ.
    """

    rows_before: int
    rows_after: int
    added: int = 0
    removed: int = 0
    changed: int = 0
    columns: Mapping[str, int] = {}
    columns_added: tuple[str, ...] = ()
    columns_removed: tuple[str, ...] = ()
    columns_retyped: tuple[str, ...] = ()
    has_key: bool = True
    sample: tuple[ChangedKey, ...] = ()

    @property
    def differs(self) -> bool:
        """Whether anything differs."""
        columns = self.columns_added or self.columns_removed or self.columns_retyped
        return bool(self.added or self.removed or self.changed or columns)


class ViewDifference(Frozen):
    """
    A recorded difference.

    :param number: the number among the job's differences, from 1.
    :param subject: what waits.
    :param sides: the compared versions.
    :param rows: what differs.
    """

    number: int
    job: str
    subject: CutOverSubject
    sides: ComparedVersions
    rows: RowDifference
    requested_by: str
    compared_at: dt.datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewAt:
    """
    A view as of a version.

    :param settings: the settings of its job.
    """

    settings: JobSettings
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryAt:
    """
    What a query gives as of offsets of its upstreams.

    :param settings: the settings that the job would have with it.
    :param pinned: the offsets.
    :param barrier: the barrier of the epoch that has read up to them.
    """

    settings: JobSettings
    pinned: PinnedVerification
    barrier: Barrier


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedSides:
    """
    What is compared.

    :param served: the view that serves; ``None`` if none does.
    :param waiting: the view that waits, or the query that has no view yet.
    """

    served: ViewAt | None
    waiting: ViewAt | QueryAt

"""
Compares what waits for an approval with the view that serves, and records the difference.

Of a rebuild, both are views, compared as of epochs that have read the same of their upstreams, if the logs have such.
Of a changed query, it is compared with the view as of the view's newest epoch, as a verification would compare it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from airflow_backfill_provider.core.clock import Clock, utc_now
from airflow_backfill_provider.core.epoch.announced import CommittedEpoch, committed
from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.errors import NotFinishedError
from airflow_backfill_provider.core.job.cut_over import CutOverKind
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.core.scan.keys import EncodedPosition
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.core.status.view_difference import (
    ComparedSide,
    ComparedVersions,
    PinnedSides,
    QueryAt,
    RowDifference,
    RowValues,
    ViewAt,
    ViewDifference,
)
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.jobs.cut_over import WaitingCutOver, require_ready, require_same
from airflow_backfill_provider.jobs.verification.verifier import pin_newest
from airflow_backfill_provider.lake.tables.verified_tables import view_version_of
from airflow_backfill_provider.state.store import BackfillStore

_EPOCHS = 50
"""How many epochs of each log are searched for a common point of the upstreams."""


class ViewComparer(Protocol):
    """The interface that a difference needs from Spark; see :mod:`airflow_backfill_provider.engine.view_difference`."""

    def difference(self, sides: PinnedSides) -> RowDifference:
        """Compare a view that waits for an approval with the one that serves."""
        ...

    def values(self, sides: PinnedSides, keys: Sequence[EncodedPosition]) -> Sequence[RowValues]:
        """Return the rows of both views with some keys."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownDifference:
    """
    A difference, and where its values are.

    :param recorded: the difference.
    :param sides: what was compared.
    """

    recorded: ViewDifference
    sides: PinnedSides

    def values(self, comparer: ViewComparer) -> Sequence[RowValues]:
        """Return the rows of both views with the sampled keys; they are recorded nowhere."""
        return comparer.values(self.sides, [found.key for found in self.recorded.rows.sample])


def compare_waiting(
    backfill: Backfill, *, comparer: Callable[[], ViewComparer], requester: Requester, clock: Clock = utc_now
) -> ShownDifference:
    """
    Compare what waits for an approval with the view that serves, and record the difference.

    :param comparer: creates it, once there is something to compare.
    :raises InvalidJobError: if nothing waits.
    :raises NotFinishedError: if it is not ready yet.
    :raises BackfillError: if a table cannot be read.
    """
    settings = backfill.settings()
    waiting = require_ready(backfill.store, settings)
    sides, versions = _pinned(backfill, settings, waiting, requester)
    rows = comparer().difference(sides)

    def make(number: int) -> ViewDifference:
        return ViewDifference(
            number=number,
            job=settings.job["name"],
            subject=waiting.subject,
            sides=versions,
            rows=rows,
            requested_by=str(requester),
            compared_at=clock(),
        )

    return ShownDifference(recorded=backfill.store.differences.record(make), sides=sides)


def newest_difference(backfill: Backfill) -> ViewDifference | None:
    """
    Return the newest recorded difference of what waits; ``None`` if nobody has asked for one.

    :raises InvalidJobError: if nothing waits, or something else than was compared.
    :raises NotFinishedError: if it is not ready yet.
    """
    return recorded_of(require_ready(backfill.store, backfill.settings()), backfill.store)


def recorded_of(waiting: WaitingCutOver | None, store: BackfillStore) -> ViewDifference | None:
    """
    Return the newest recorded difference of what waits; ``None`` if there is none.

    :param store: the control tables of the job.
    """
    found = None if waiting is None else store.differences.newest()
    return found if found is not None and waiting is not None and found.subject == waiting.subject else None


def difference_to_approve(backfill: Backfill, number: int | None) -> ViewDifference:
    """
    Return the difference that an approval is about.

    :param number: its number; ``None`` for the newest one of what waits.
    :raises InvalidJobError: if nothing waits, or the difference is of something else.
    :raises NotFinishedError: if it is not ready, or nobody has looked at the difference.
    """
    waiting = require_ready(backfill.store, backfill.settings())
    store = backfill.store
    found = recorded_of(waiting, store) if number is None else store.differences.numbered(number)
    if found is None:
        what = "difference" if number is None else f"difference {number}"
        raise NotFinishedError(
            f"job {backfill.job.name}: no {what} of {waiting.subject.kind.words} is recorded, so nobody has seen what "
            "an approval would be about; look at it first: airflow-backfill diff"
        )
    require_same(waiting, found)
    return found


def _pinned(
    backfill: Backfill, settings: JobSettings, waiting: WaitingCutOver, requester: Requester
) -> tuple[PinnedSides, ComparedVersions]:
    """Return what to compare, and the versions of it."""
    match waiting.subject.kind:
        case CutOverKind.BACKFILL:
            return _of_views(None, _Side.newest(waiting.store, waiting.settings))
        case CutOverKind.REBUILD:
            return _of_views(*_at_one_point(backfill.store, settings, waiting))
        case CutOverKind.CHANGE:
            return _of_query(backfill, settings, waiting, requester)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side:
    """
    A view as of one of its epochs.

    :param settings: the settings of its job.
    :param epoch: the epoch.
    :param store: the control tables.
    """

    settings: JobSettings
    epoch: CommittedEpoch
    store: BackfillStore

    @classmethod
    def all(cls, store: BackfillStore, settings: JobSettings) -> list[_Side]:
        """Return the newest whole epochs of an incarnation, newest first."""
        since = max(store.last_epoch() - _EPOCHS, settings.base_epoch) + 1
        epochs = committed(*store.log(since_epoch=since))
        ours = [found for found in epochs if found.commit.incarnation == settings.incarnation]
        return [
            cls(settings=settings, epoch=found, store=store)
            for found in reversed(ours)
            if found.commit.completed and not found.commit.given_up
        ]

    @classmethod
    def newest(cls, store: BackfillStore, settings: JobSettings) -> _Side:
        """Return the newest whole epoch of an incarnation."""
        found = cls.all(store, settings)
        if not found:
            raise NotFinishedError(
                f"the newest {_EPOCHS} epochs of job {settings.job['name']} left no whole view; run more epochs"
            )
        return found[0]

    @property
    def upstreams(self) -> Mapping[str, Offset]:
        """The offsets of the upstreams that the view is at."""
        return _ends(self.epoch.barrier)

    def view(self) -> ViewAt:
        """Return the view as of the epoch."""
        job = self.settings.definition
        version = view_version_of(
            job.view_location, self.settings.incarnation, self.epoch.number, self.store.storage_options
        )
        return ViewAt(settings=self.settings, version=version)


def _ends(barrier: Barrier) -> Mapping[str, Offset]:
    return {window.relation: window.to_offset for window in barrier.windows}


def _at_one_point(store: BackfillStore, settings: JobSettings, waiting: WaitingCutOver) -> tuple[_Side, _Side]:
    """Return the newest epochs of both views that have read the same of the upstreams; without such, the newest."""
    served, grown = _Side.all(store, settings), _Side.all(waiting.store, waiting.settings)
    by_ends = {tuple(sorted(side.upstreams.items())): side for side in reversed(served)}
    for side in grown:
        same = by_ends.get(tuple(sorted(side.upstreams.items())))
        if same is not None and _reads_same_tables(same.epoch.barrier, side.epoch.barrier):
            return same, side
    return _Side.newest(store, settings), _Side.newest(waiting.store, waiting.settings)


def _reads_same_tables(one: Barrier, other: Barrier) -> bool:
    tables = {window.relation: window.table_id for window in one.windows}
    return tables == {window.relation: window.table_id for window in other.windows}


def _of_views(served: _Side | None, waiting: _Side) -> tuple[PinnedSides, ComparedVersions]:
    def compared(side: _Side, view: ViewAt) -> ComparedSide:
        return ComparedSide(view_version=view.version, epoch=side.epoch.number, upstreams=side.upstreams)

    after = waiting.view()
    versions = ComparedVersions(served=None, waiting=compared(waiting, after))
    if served is None:
        return PinnedSides(served=None, waiting=after), versions
    before = served.view()
    return (
        PinnedSides(served=before, waiting=after),
        versions.model_copy(update={"served": compared(served, before)}),
    )


def _of_query(
    backfill: Backfill, settings: JobSettings, waiting: WaitingCutOver, requester: Requester
) -> tuple[PinnedSides, ComparedVersions]:
    pinned = pin_newest(backfill, requester)
    barrier = backfill.store.pinned(pinned.epoch)
    served = backfill.store.settings_for(barrier).model_copy(update={"incarnation": settings.incarnation})
    sides = PinnedSides(
        served=ViewAt(settings=served, version=pinned.view_version),
        waiting=QueryAt(settings=waiting.settings, pinned=pinned, barrier=barrier),
    )
    ends = _ends(barrier)
    return sides, ComparedVersions(
        served=ComparedSide(view_version=pinned.view_version, epoch=pinned.epoch, upstreams=ends),
        waiting=ComparedSide(view_version=None, epoch=pinned.epoch, upstreams=ends),
    )

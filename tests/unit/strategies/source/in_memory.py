"""A source whose splits are numbers in memory, for tests of the strategy that reads splits."""

from __future__ import annotations

from airflow_backfill_provider.core.errors import ChangeFeedGapError
from airflow_backfill_provider.core.scan.keys import KeyField, KeyOrder
from airflow_backfill_provider.core.scan.offset import HistoryPoint
from airflow_backfill_provider.core.scan.spark_hash import vnode_of_number
from airflow_backfill_provider.sources.delta.source import DeltaSource
from airflow_backfill_provider.sources.split_offsets import ends_of, offset_of
from airflow_backfill_provider.sources.splits import Splits
from airflow_backfill_provider.strategies.vnode_scan import VnodeScan

PLACES = KeyOrder((KeyField(name="partition", type="integer"), KeyField(name="offset", type="long")))


class NumberedSplits(Splits):
    """
    Splits numbered from 0.

    :param oldest: the oldest place of each that is left.
    :param skips: whether a job goes on without what is gone.
    """

    def __init__(self, *oldest, skips=False):
        self.oldest = dict(enumerate(oldest))
        self.skips = skips
        self.asked = []

    def ends(self, offset):
        return ends_of(offset)

    def beginnings(self):
        return offset_of(self.oldest)

    def require_kept(self, ranges):
        self.asked += ranges
        gone = [str(places.split) for places in ranges if places.begin < self.oldest.get(places.split, 0)]
        if gone and not self.skips:
            raise ChangeFeedGapError(f"rows of splits {', '.join(gone)} are gone")
        return tuple(f"split {split} has lost rows" for split in gone)

    def lost(self, ranges):
        gone = {places.split for places in ranges if places.begin < self.oldest.get(places.split, 0)}
        return f"rows of splits {sorted(gone)} are gone" if gone else ""


class Appended(DeltaSource):
    """A source of splits; nothing else is asked of it."""

    def __init__(self, splits):
        super().__init__("/nowhere")
        self._splits = splits

    @property
    def splits(self):
        return self._splits

    def point(self, offset):
        return HistoryPoint(offset=offset, mark="m1")


def scan_of(vnode_count=1, vnodes=None):
    """Return a scan by vnode and place."""
    return VnodeScan(PLACES, vnode_count, frozenset(range(vnode_count)) if vnodes is None else frozenset(vnodes))


def of_vnode(vnode, vnode_count, count=1):
    """Return the first splits that lie in a vnode."""
    return [split for split in range(1000) if vnode_of_number(split, vnode_count) == vnode][:count]

"""Plans what the next epoch reads of splits, from their ends."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_backfill_provider.core.epoch.shared_vnodes import shared_vnodes
from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.scan.next_chunk import ChunkPart
from airflow_backfill_provider.core.scan.progress import BackfillState
from airflow_backfill_provider.core.scan.splits import splits_by_vnode
from airflow_backfill_provider.sources.base import Source
from airflow_backfill_provider.sources.splits import Splits
from airflow_backfill_provider.strategies.base import ChunkInputs, NextChunk
from airflow_backfill_provider.strategies.source.chunks import SplitBounds, fair_shares, next_ranges, places_of
from airflow_backfill_provider.strategies.vnode_scan import VnodeScan


def next_splits(inputs: ChunkInputs, scan: VnodeScan) -> NextChunk:
    """
    Plan what an epoch reads.

    :raises ChangeFeedGapError: if rows are gone that are not read yet, unless the job goes on without them.
    """
    settings, state = inputs.settings, inputs.state
    splits = splits_of(inputs.upstream)
    bounds = SplitBounds(begins=splits.ends(settings.first_offset), ends=splits.ends(inputs.offset))
    # A job that does not go on without lost rows fails now, not when it comes to them.
    splits.require_kept(places_of(scan, scan.unread(state), bounds))
    left_of = _without_lost(bounds, splits.ends(splits.beginnings()))
    owned = shared_vnodes(state, settings.parallelism, inputs.previous, lambda: _rows_by_vnode(state, scan, left_of))
    if not settings.reads_snapshot:
        return NextChunk(bounds.size, vnode_ranges=owned)
    left = [sum(places.size for places in places_of(scan, scan.unread(state, vnodes), left_of)) for vnodes in owned]
    shares = fair_shares(left, inputs.rate_limit)
    parts = []
    for vnodes, share, rest in zip(owned, shares, left, strict=True):
        ranges = next_ranges(scan, state, left_of, limit=share, vnodes=vnodes)
        rows = sum(places.size for places in places_of(scan, ranges, left_of))
        parts.append(
            ChunkPart(
                ranges=ranges,
                rows=rows,
                completes=rows == rest,
                scanned_files=0,
                scanned_rows=rows,
                scanned_bytes=0,
                warnings=splits.require_kept(places_of(scan, ranges, bounds)),
            )
        )
    return NextChunk(bounds.size, tuple(part for part in parts if part.ranges), owned, unread=sum(left))


def _without_lost(bounds: SplitBounds, beginnings: Mapping[int, int]) -> SplitBounds:
    """Return the places that are left, so that an epoch passes lost ones at once."""
    begins = {split: max(bounds.begins.get(split, 0), beginnings.get(split, 0)) for split in bounds.ends}
    return SplitBounds(begins=begins, ends=bounds.ends)


def splits_of(upstream: Source) -> Splits:
    """
    Return a source's splits.

    :raises InvalidJobError: if it has none.
    """
    if upstream.splits is None:
        raise InvalidJobError(f"strategy: source reads splits, and {upstream.location} has none; use auto")
    return upstream.splits


def _rows_by_vnode(state: BackfillState, scan: VnodeScan, bounds: SplitBounds) -> list[float]:
    """Return how many rows of each vnode are left."""
    weights = [0.0] * scan.vnode_count
    for vnode in splits_by_vnode(bounds.ends, scan.vnode_count):
        weights[vnode] = sum(part.size for part in places_of(scan, scan.unread(state, (vnode, vnode)), bounds))
    return weights

"""Chunks of whole units: a chunk ends between units, and only a unit above the rate limit exceeds it."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from airflow_backfill_provider.core.scan.file_statistics import FileStatistics
from airflow_backfill_provider.core.scan.keys import KeyField, KeyOrder
from airflow_backfill_provider.core.scan.unit_chunks import choose_unit_parts
from airflow_backfill_provider.strategies.vnode_scan import VnodeScan
from tests.builders import ExactKeys, in_order

VNODES = 5
SCAN = VnodeScan(
    KeyOrder((KeyField(name="u1", type="string"), KeyField(name="u2", type="long"))), VNODES, frozenset(range(VNODES))
)


class UnitKeys(ExactKeys):
    """Positions of rows in memory."""

    def last_before(self, files, within, position):
        """Return the greatest of the files' keys in a range that lies before a position."""
        found = self.within([file.path for file in files], within)
        before = [key for key in found if self.order.compare(key, position) < 0]
        return before[-1] if before else None


def stored(units, files):
    """Lay rows out by their units in files with exact bounds; the files cut units anywhere."""
    rows = in_order([unit for unit, count in units.items() for _ in range(count)], SCAN.order)
    size = max(-(-len(rows) // files), 1)
    cut = {f"f{start}": rows[start : start + size] for start in range(0, len(rows), size)}
    statistics = [
        FileStatistics(path=path, row_count=len(keys), lower=keys[0], upper=keys[-1]) for path, keys in cut.items()
    ]
    return statistics, UnitKeys(cut, SCAN.order)


def epochs(units, files, rate_limit, vnode_ranges):
    """Yield the parts of each epoch's chunk until all units are read."""
    statistics, keys = stored(units, files)
    state = SCAN.initial(0)
    for epoch in range(1, 200):
        if state.completed:
            return
        unread = [SCAN.unread(state, vnodes) for vnodes in vnode_ranges]
        parts = choose_unit_parts(statistics, unread=unread, rate_limit=rate_limit, order=SCAN.order, keys=keys)
        assert len(parts) == len(vnode_ranges)
        yield [(part, keys.within(keys.keys, *part.ranges)) for part in parts]
        ranges = [covered for part in parts for covered in part.ranges]
        assert ranges, "an epoch reads something"
        state = SCAN.advanced(state, epoch=epoch, ranges=ranges, rows={})
    raise AssertionError("the units are never all read")


@pytest.mark.parametrize("seed", range(40))
def test_each_unit_is_read_once_and_whole_within_the_rate_limit(seed):
    """I1 and I4: also NULL units, one of half of the rows, several parts, and files that cut units."""
    random = Random(seed)
    names = [None, "", *"abcdefgh"]
    units = {
        (random.randrange(VNODES), random.choice(names), random.choice([None, 0, 7])): random.randint(1, 6)
        for _ in range(random.randint(0, 25))
    }
    if units and seed % 2:
        units[random.choice(list(units))] = 40
    rate_limit = random.randint(1, 15)
    ranges = random.choice([((0, 4),), ((0, 1), (2, 4)), ((0, 0), (1, 2), (3, 4))])
    read = Counter()
    for parts in epochs(units, random.randint(1, 6), rate_limit, ranges):
        rows = [row for _, found in parts for row in found]
        for part, found in parts:
            assert part.rows == len(found)
        if len(rows) > rate_limit:
            assert len({*rows}) == 1, "a unit above the rate limit is read alone"
            warnings = [warning for part, _ in parts for warning in part.warnings]
            assert warnings == [
                f"one group has {len(rows)} rows, more than the rate limit of {rate_limit}; it is read whole, by an "
                "epoch of its own. Raise the rate limit, or use strategy snapshot"
            ]
        for unit, count in Counter(rows).items():
            assert count == units[unit], "a chunk ends between units"
        read.update(rows)
    assert read == Counter(units)


def test_without_a_rate_limit_one_epoch_reads_everything():
    units = {(vnode, name, 1): 3 for vnode in range(VNODES) for name in "abc"}
    (parts,) = epochs(units, 4, None, ((0, 2), (3, 4)))
    assert [part.completes for part, _ in parts] == [True, True]


def test_a_unit_that_does_not_fit_into_its_parts_share_gets_what_the_others_leave():
    """A unit below the rate limit never exceeds it, however many task runs share it."""
    units = {(0, "a", 1): 6, (3, "b", 1): 6, (4, "c", 1): 2}
    first = next(epochs(units, 2, 8, ((0, 2), (3, 4))))
    assert [part.rows for part, _ in first] == [6, 0]
    assert not any(part.warnings for part, _ in first)


def test_vnodes_without_units_are_completed_on_the_way():
    """A chunk goes through them, and its position lies in the vnode of its last unit."""
    ((part, rows),) = next(epochs({(3, "a", 1): 2, (3, "b", 1): 9}, 1, 2, ((0, 4),)))
    assert (part.rows, {*rows}) == (2, {(3, "a", 1)})
    assert part.ranges[-1].up_to == (3, "a", 1)

"""How two sides differ, by the checksums of their vnodes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_backfill_provider.core.status.differences import (
    NO_ROWS,
    VnodeChecksum,
    VnodeDifference,
    differing_vnodes,
)

SAME = VnodeChecksum(rows=2, sums=(7, 8))


@pytest.mark.parametrize(
    "other",
    [
        VnodeChecksum(rows=3, sums=(7, 8)),
        VnodeChecksum(rows=2, sums=(6, 8)),
        VnodeChecksum(rows=2, sums=(7, 9)),
    ],
)
def test_each_part_of_a_checksum_counts(other):
    assert differing_vnodes({0: SAME, 1: SAME}, {0: SAME, 1: other}) == (1,)


def test_a_vnode_of_one_side_alone_differs_unless_it_has_no_rows():
    assert differing_vnodes({2: SAME}, {1: SAME}) == (1, 2)
    assert differing_vnodes({}, {1: VnodeChecksum(rows=0, sums=(0, 0))}) == ()


def test_differing_keys_are_counted_by_kind():
    assert VnodeDifference(vnode=3, missing=1, unexpected=10, repeated=100, different=1000).keys == 1111
    assert VnodeDifference(vnode=3).keys == 0


CHECKSUMS = st.builds(
    VnodeChecksum,
    rows=st.integers(0, 1),
    sums=st.tuples(st.integers(0, 1), st.just(0)),
)
SIDES = st.dictionaries(st.integers(0, 4), CHECKSUMS, max_size=5)


@settings(max_examples=40)
@given(SIDES, SIDES)
def test_a_vnode_differs_whichever_side_is_the_view(expected, found):
    differing = differing_vnodes(expected, found)
    assert differing == differing_vnodes(found, expected)
    assert list(differing) == sorted(v for v in range(5) if expected.get(v, NO_ROWS) != found.get(v, NO_ROWS))
    assert differing_vnodes(expected, expected) == ()

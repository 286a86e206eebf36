"""The vnode of a whole number is the one that Spark computes."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.scan.spark_hash import vnode_of_number

SPARKS_HASH = {
    0: 933211791,
    1: -559580957,
    2: 1765031574,
    3: -1823081949,
    4: -397064898,
    7: 1079293707,
    255: -673326395,
    65_536: 1017081869,
    2**31 - 1: 133916647,
}
"""Numbers, and what ``SELECT hash(CAST(… AS INT))`` returns for them."""


@pytest.mark.parametrize("number", SPARKS_HASH)
@pytest.mark.parametrize("vnode_count", [1, 2, 3, 16, 256, 32_767])
def test_it_is_the_rest_of_sparks_hash(number, vnode_count):
    """The rest is never negative, as that of Spark's ``pmod``."""
    assert vnode_of_number(number, vnode_count) == SPARKS_HASH[number] % vnode_count
    assert 0 <= vnode_of_number(number, vnode_count) < vnode_count


def test_the_splits_of_a_topic_are_spread_over_all_vnodes():
    assert {vnode_of_number(split, 16) for split in range(200)} == set(range(16))

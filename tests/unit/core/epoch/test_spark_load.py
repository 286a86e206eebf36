"""When Spark is late with its work, and what several applications make of an epoch's load."""

import pytest

from airflow_backfill_provider.core.epoch.spark_load import SparkLoad, load_of_all


@pytest.mark.parametrize(
    ("load", "why"),
    [
        ({}, ""),
        ({"spilled_bytes": 0, "gc_share": 0.2, "queued_seconds": 25.0}, ""),
        ({"spilled_bytes": 3 << 30}, "it spilled 3.0 GiB to disk"),
        ({"gc_share": 0.21}, "it spent 21.0 % of its tasks' time on garbage collection"),
        ({"queued_seconds": 26.0}, "its stages waited 26 s for free slots"),
        ({"spilled_bytes": 1, "gc_share": 0.9, "queued_seconds": 90.0}, "it spilled 1 bytes to disk"),
    ],
)
def test_an_application_is_late_if_it_spills_collects_or_waits(load, why):
    """What Spark did not tell is no reason."""
    assert SparkLoad(**load).lateness(100) == why


def test_applications_that_share_an_epoch_have_their_clusters_together_and_the_worst_wait():
    one = SparkLoad(slots=2, memory_bytes=10, spilled_bytes=1, gc_share=0.1, queued_seconds=3.0)
    two = SparkLoad(slots=4, memory_bytes=20, spilled_bytes=0, gc_share=0.3, queued_seconds=1.0)
    both = SparkLoad(slots=6, memory_bytes=30, spilled_bytes=1, gc_share=0.3, queued_seconds=3.0)
    assert load_of_all([one, two]) == both
    assert load_of_all([one]) == one


def test_what_one_application_does_not_know_is_unknown():
    assert load_of_all([SparkLoad(slots=2, gc_share=0.1), SparkLoad(slots=2)]) == SparkLoad(slots=4)
    assert load_of_all([SparkLoad(slots=2), None]) is None
    assert load_of_all([]) is None

"""When a compaction is worth it: by the sizes and counts in a table's log."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import InvalidPolicyError
from airflow_backfill_provider.core.status.compaction import (
    CompactionPolicy,
    CompactionStep,
    StoredFile,
    plan_compaction,
)

POLICY = CompactionPolicy(at=3)


def plan(*sizes, policy=POLICY, target=100, **more):
    return plan_compaction([StoredFile(size=size, rows=10) for size in sizes], policy, target=target, **more)


def test_a_table_without_files_needs_nothing():
    found = plan()
    assert (found.files, found.saved_files, found.deleted_share, found.step) == (0, 0, 0.0, None)


@pytest.mark.parametrize(
    ("sizes", "saved"),
    [
        ([10], 0),
        ([10, 10], 1),
        ([49, 49], 1),
        ([50, 50], 0),
        ([40, 40, 40], 1),
        ([40, 40, 40, 40], 2),
        ([10] * 10, 9),
        ([10] * 11, 9),
        ([10, 99, 10, 99, 10], 2),
        ([1, 49, 49, 49], 2),
        ([45, 45, 10, 45, 45, 10], 3),
    ],
    ids=str,
)
def test_small_files_go_into_as_few_as_the_target_allows_and_others_stay(sizes, saved):
    assert plan(*sizes).saved_files == saved


def test_each_partition_is_compacted_by_itself():
    files = [StoredFile(size=1, partition=(day,)) for day in ("mon", "tue", "wed")] * 2
    assert plan_compaction(files, POLICY, target=100).saved_files == 3
    assert plan_compaction(files[:3], POLICY, target=100).saved_files == 0


def test_it_is_due_once_it_saves_as_many_files_as_asked_for():
    assert plan(1, 1, 1).step is None
    assert plan(1, 1, 1, 1).step is CompactionStep.COMPACT


def test_a_file_that_a_compaction_filled_is_not_rewritten_by_the_next():
    assert plan(60, 60, 60, 60, 60).saved_files == 0


def test_a_caller_may_set_what_counts_as_small():
    found = plan(30, 30, 30, 30, 5, 5, smaller_than=20)
    assert (found.saved_files, found.smaller_than) == (1, 20)


def test_a_large_file_with_deleted_rows_is_written_with_others_as_delta_does():
    files = [StoredFile(size=60, rows=100, deleted_rows=6), StoredFile(size=10, rows=10)]
    assert plan_compaction(files, POLICY, target=100).saved_files == 1
    files[0] = StoredFile(size=60, rows=100, deleted_rows=5)
    assert plan_compaction(files, POLICY, target=100).saved_files == 0


def test_deleted_rows_are_purged_once_they_are_a_fifth_of_what_is_stored():
    kept = StoredFile(size=90, rows=60)
    assert plan_compaction([kept, StoredFile(size=90, rows=40, deleted_rows=19)], POLICY, target=100).step is None
    found = plan_compaction([kept, StoredFile(size=90, rows=40, deleted_rows=20)], POLICY, target=100)
    assert (found.step, found.deleted_share) == (CompactionStep.PURGE, 0.2)


def test_one_step_at_a_time_so_that_a_concurrent_epoch_conflicts_at_most_once():
    files = [StoredFile(size=1, rows=10, deleted_rows=9)] * 4
    assert plan_compaction(files, POLICY, target=100).step is CompactionStep.COMPACT
    assert plan_compaction(files[:2], POLICY, target=100).step is CompactionStep.PURGE


def test_a_target_of_one_byte_divides_nothing_by_zero():
    assert plan(1, 1, target=1).smaller_than == 1


@pytest.mark.parametrize(
    "fields", [{"at": 0}, {"deleted_share": 0.0}, {"deleted_share": 1.1}, {"target_file_size": 0}], ids=str
)
def test_an_invalid_policy_is_refused_with_the_name_of_its_field(fields):
    with pytest.raises(InvalidPolicyError, match=next(iter(fields))):
        CompactionPolicy(**fields)


def test_a_policy_may_have_the_smallest_and_the_largest_values():
    CompactionPolicy(at=1, deleted_share=1.0, target_file_size=1)

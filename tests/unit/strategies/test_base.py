"""What all strategies have in common: defaults, and rules that several of them keep."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.scan.keys import KeyRange
from airflow_backfill_provider.core.scan.next_chunk import ChunkPart
from airflow_backfill_provider.strategies import KINDS
from airflow_backfill_provider.strategies.base import NextChunk, require_rows_to_stay
from tests.builders import job_of, settings_of

ONE, TWO, THREE = KeyRange(None, (1,)), KeyRange((4,), (5,)), KeyRange((5,), None)


def part(*ranges, warnings=()):
    return ChunkPart(
        ranges=ranges, rows=1, completes=False, scanned_files=1, scanned_rows=1, scanned_bytes=1, warnings=warnings
    )


def test_a_chunk_is_the_ranges_of_its_parts_and_has_each_warning_once():
    plan = NextChunk(9, parts=(part(ONE, TWO, warnings=("a", "b")), part(THREE, warnings=("b", "c"))))
    assert plan.ranges == (ONE, TWO, THREE)
    assert plan.warnings == ("a", "b", "c")


def test_a_plan_without_parts_reads_nothing():
    assert (NextChunk(9).ranges, NextChunk(9).warnings, NextChunk(9).prepares) == ((), (), False)


def distributed_by(*columns, visibility="on_finish"):
    upstream = {"path": "/lake/orders", "key": ["id", "line"], "distribution_key": columns}
    return job_of(upstream=upstream, visibility=visibility, strategy="no_shuffle")


@pytest.mark.parametrize(
    "job",
    [distributed_by("id"), distributed_by("line", "id"), distributed_by("region", visibility="every_epoch")],
)
def test_rows_stay_in_their_vnode_if_only_key_columns_distribute_them(job):
    require_rows_to_stay(job)


def test_rows_that_move_while_their_changes_wait_are_refused_by_the_column_that_moves_them():
    """I1: such a row would be read twice."""
    with pytest.raises(InvalidJobError, match=r"^visibility: on_finish needs .* a change of amount can move a row"):
        require_rows_to_stay(distributed_by("id", "region", "amount"))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_strategy_says_how_many_files_it_reads(kind):
    assert kind.files_read(1, 1).startswith("1 ")
    assert kind.files_read(2000, 3000).startswith("2,000 ")
    assert "file " in f"{kind.files_read(1, 1)} "
    assert "files" in kind.files_read(2000, 3000)


def test_a_strategy_without_tables_has_nothing_to_make_keep_or_clean_up():
    kind, settings = KINDS.named("no_shuffle"), settings_of()
    assert (kind.table_names, kind.is_prepared(settings, None), kind.keeps_tables(settings)) == ((), True, False)
    assert kind.start("orders", None, None) is None
    assert kind.compactions(settings, None, None) == {}
    assert kind.first_chunk() == ""
    kind.clean_up(settings, None)

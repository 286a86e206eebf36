"""Barriers: what their digest covers, and that they survive the barrier log."""

from __future__ import annotations

import datetime as dt

import pytest
from pydantic import ValidationError

from airflow_backfill_provider.core.epoch.barrier import (
    Barrier,
    CountedRows,
    Mutation,
    PinnedMutation,
    PinnedPart,
    PinnedRange,
    PinnedRead,
)
from airflow_backfill_provider.core.epoch.failures import GivenUp
from airflow_backfill_provider.core.epoch.repair import Repair
from airflow_backfill_provider.core.errors import StateLayoutError
from airflow_backfill_provider.core.job.definition_change import ColumnsChange, FilterChange
from airflow_backfill_provider.core.job.rate_limit import PinnedRate
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.core.refresh import PinnedRefresh
from airflow_backfill_provider.core.scan.keys import KeyRange
from airflow_backfill_provider.core.scan.offset import Offset
from tests.builders import NOW, barrier_of, order_of, part_of, visible_after, window_of

TASK = Requester(dag_id="d", run_id="r", task_id="t", map_index=2)


def read_of(version, after, up_to):
    return PinnedRead(ranges=(PinnedRange(after=after, up_to=up_to),), offset=version)


DECIDING = {
    "job": "other",
    "incarnation": "b2",
    "epoch": 2,
    "prev_epoch": 7,
    "windows": [
        (window_of(table_id="other"),),
        (window_of(from_version=0, to_version=1),),
        (window_of(to_version=1),),
        (window_of(), window_of(relation="customers")),
    ],
    "definition": "e" * 32,
    "parts": [
        (),
        (part_of(("5",), None),),
        (part_of(("5",), ("10",)),),
        (part_of(None, ("9",)),),
        (part_of((None,), ("9",)),),
        (part_of(("5",), ("9",)), part_of(("9",), ("10",))),
        (PinnedPart(ranges=(*part_of(("5",), ("9",)).ranges, *part_of(("9",), ("10",)).ranges)),),
        (part_of(("5",), ("9",)), PinnedPart(ranges=())),
    ],
    "read_before": [
        (),
        (PinnedRange(after=None, up_to=None),),
        (PinnedRange(after=None, up_to=("6",)),),
        (PinnedRange(after=None, up_to=(None,)),),
        (PinnedRange(after=None, up_to=("2",)), PinnedRange(after=("3",), up_to=("5",))),
    ],
    "read_as_of": [(read_of(1, None, ("5",)),), (read_of(2, None, ("5",)),), (read_of(1, None, ("4",)),)],
    "publishes": False,
    "older_offset": 0,
    "repair": [Repair(vnodes=(0,)), Repair(keys=(("0",),)), Repair(keys=((None,),))],
    "filter_change": [
        FilterChange(relation="upstream", before="a", after="b"),
        FilterChange(relation="upstream", before="b", after="a"),
        FilterChange(relation="upstream", before="a", after="b", types={"a": "boolean"}),
    ],
    "columns_change": [ColumnsChange(added=("a",)), ColumnsChange(dropped=("a",)), ColumnsChange(reordered=True)],
}
NOT_DECIDING = {
    "rate_limit": [None, 0, 7],
    "rate": PinnedRate(asked="auto", reason="because of nothing", row_bytes=9.5),
    "parallelism": 2,
    "vnode_ranges": [((0, 1), (2, 3)), ((0, 2), (3, 3))],
    "completes": True,
    "instant": NOW,
    "paused": True,
    "mutations": [
        (PinnedMutation(mutation=Mutation.PAUSE, requested_by="somebody", requested_at=NOW),),
    ],
    "settings_sequence": 9,
    "replay": 4,
    "refresh": PinnedRefresh(whole=True, reason="because of nothing"),
    "unread": CountedRows(rows=12, epochs=3),
    "held_up": 3,
    "withheld": True,
    "warnings": [("careful",)],
    "injected_by": [TASK, Requester(user="somebody")],
    "injected_at": NOW + dt.timedelta(days=1),
    "given_up": GivenUp(error="E", message="m", by="x", at=NOW, to_offset=1, settings_sequence=1),
}


def cases(fields):
    return [
        (name, value) for name, values in fields.items() for value in (values if isinstance(values, list) else [values])
    ]


def test_every_field_is_listed_as_deciding_rows_or_not():
    assert set(DECIDING) | set(NOT_DECIDING) == set(Barrier.model_fields)


@pytest.mark.parametrize(("field", "value"), cases(DECIDING))
def test_the_digest_covers_everything_that_decides_rows(field, value):
    """I2: two barriers with one digest write the same rows."""
    assert barrier_of(**{field: value}).digest != barrier_of().digest


@pytest.mark.parametrize(("field", "value"), cases(NOT_DECIDING))
def test_the_digest_ignores_who_asked_and_when_and_why(field, value):
    assert barrier_of(**{field: value}).digest == barrier_of().digest


def test_the_digests_of_different_barriers_are_all_different():
    digests = {barrier_of(**{field: value}).digest for field, value in cases(DECIDING)}
    assert len(digests) == len(cases(DECIDING))


def test_a_barrier_survives_the_barrier_log():
    barrier = barrier_of(
        3,
        parts=(part_of(("ü'\"\\\u2028\x85", None), (None, "")), PinnedPart(ranges=())),
        read_before=(PinnedRange(after=None, up_to=("ü'\"\\\u2028\x85", None)),),
        vnode_ranges=((0, 3),),
        repair=Repair(vnodes=(2, 5), keys=(("ü'\"\\\u2028\x85", None),)),
        rate_limit=None,
        mutations=(
            PinnedMutation(mutation=Mutation.THROTTLE, value=None, requested_by="o'brien", requested_at=NOW),
            PinnedMutation(mutation=Mutation.RESUME, requested_by=str(TASK), requested_at=NOW),
        ),
        warnings=("two\nlines",),
        injected_by=TASK,
        injected_at=NOW + dt.timedelta(microseconds=1),
    )
    read = Barrier.model_validate_json(barrier.model_dump_json())
    assert read == barrier
    assert read.digest == barrier.digest


@pytest.mark.parametrize(("to_version", "has_window"), [(5, True), (4, True), (3, False)])
def test_a_barrier_has_a_window_once_there_is_a_new_version(to_version, has_window):
    """Half-open: the versions in (from, to]."""
    assert barrier_of(upstream=window_of(from_version=3, to_version=to_version)).has_window is has_window


@pytest.mark.parametrize(
    ("changes", "most"),
    [
        ({}, 1000),
        ({"publishes": False}, 100),
        ({"publishes": False, "vnode_ranges": ((0, 255),)}, 100),
        ({"read_before": ()}, 100),
        ({"read_before": (), "vnode_ranges": ((0, 255),)}, 1000),
        ({"upstream": window_of(3, 3)}, 100),
        ({"upstream": window_of(3, 3), "rate_limit": None}, 1000),
        ({"upstream": window_of(3, 3), "rate_limit": 2000}, 1000),
        ({"upstream": window_of(3, 3), "parts": ()}, 1000),
        ({"upstream": window_of(3, 3), "repair": Repair(keys=(("5",),))}, 1000),
    ],
)
def test_an_epoch_reads_its_rate_limit_at_most_where_it_reads_nothing_but_its_chunk(changes, most):
    assert barrier_of(**changes).most_rows == most


def test_the_chunk_is_what_all_parts_read_in_their_order():
    order = order_of("long")
    parts = (part_of(None, ("2",)), PinnedPart(ranges=(*part_of(("4",), ("5",)).ranges, *part_of(("7",), None).ranges)))
    barrier = barrier_of(read_before=(PinnedRange(after=("2",), up_to=("4",)),), parts=parts)
    chunk = (KeyRange(None, (2,)), KeyRange((4,), (5,)), KeyRange((7,), None))
    assert barrier.chunk(order) == chunk
    assert visible_after(barrier, order) == (KeyRange((2,), (4,)), *chunk)


def test_the_view_is_as_of_the_barrier_if_the_epoch_publishes():
    """I1."""
    barrier = barrier_of(upstream=window_of(from_version=3, to_version=5), parts=(part_of(("5",), ("9",)),))
    assert barrier.view_before == (read_of(3, None, ("5",)),)
    assert barrier.view_after == (read_of(5, None, ("9",)),)
    assert (barrier.changes_after.number, barrier.has_changes) == (3, True)


def test_rows_with_waiting_changes_are_as_of_the_offset_at_which_they_were_read():
    waiting = {"publishes": False, "parts": (part_of(("5",), ("9",)),)}
    first = barrier_of(upstream=window_of(from_version=3, to_version=5), **waiting)
    assert first.view_after == (read_of(3, None, ("5",)), read_of(5, ("5",), ("9",)))
    assert first.changes_after.number == 3

    second = barrier_of(
        upstream=window_of(from_version=5, to_version=5), read_as_of=first.view_after, **{**waiting, "parts": ()}
    )
    assert second.view_before == second.view_after == first.view_after
    assert (second.changes_after.number, second.has_changes) == (5, False)

    last = barrier_of(upstream=window_of(from_version=5, to_version=5), read_as_of=first.view_after, parts=())
    assert last.view_after == (PinnedRead(ranges=last.read_before, offset=5),)
    assert (last.changes_after.number, last.has_changes, last.has_window) == (3, True, False)


@pytest.mark.parametrize("to_version", [5, 7])
def test_chunks_read_at_one_version_are_together(to_version):
    upstream = window_of(from_version=5, to_version=to_version)
    barrier = barrier_of(upstream=upstream, publishes=False, older_offset=5, parts=(part_of(("5",), ("9",)),))
    assert barrier.chunk_offset.number == 5
    assert barrier.view_after == (read_of(5, None, ("9",)),)


def test_ranges_with_unread_keys_between_them_stay_separate():
    parts = (part_of(("6",), ("9",)), part_of(("9",), None))
    barrier = barrier_of(upstream=window_of(from_version=5, to_version=5), publishes=False, parts=parts)
    ranges = (PinnedRange(after=None, up_to=("5",)), PinnedRange(after=("6",), up_to=None))
    assert barrier.view_after == (PinnedRead(ranges=ranges, offset=5),)


def test_a_range_without_an_end_is_not_joined():
    """``None`` is no end here, and no beginning there."""
    everything = PinnedRange(after=None, up_to=None)
    barrier = barrier_of(read_before=(everything,), parts=(PinnedPart(ranges=(everything,)),))
    (read,) = barrier.view_after
    assert read.ranges == (everything, everything)


def test_a_chunk_is_read_at_the_end_of_the_window_unless_an_older_version_is_pinned():
    assert barrier_of(upstream=window_of(from_version=3, to_version=5)).chunk_offset.number == 5
    assert barrier_of(upstream=window_of(from_version=3, to_version=5), older_offset=0).chunk_offset.number == 0


def test_a_strategys_tables_are_as_of_the_newest_chunk_while_changes_wait():
    """They get the changes after that offset together with the view."""
    waiting = barrier_of(upstream=window_of(from_version=3, to_version=5), publishes=False, older_offset=3)
    assert (waiting.kept_up_to.number, waiting.kept_up_to_after.number) == (3, 3)
    last = barrier_of(upstream=window_of(from_version=5, to_version=7), read_as_of=waiting.view_after)
    assert (last.kept_up_to.number, last.kept_up_to_after.number) == (3, 7)


def test_a_strategys_tables_are_as_of_the_last_window_if_nothing_is_read_or_waits():
    window = window_of(from_version=3, to_version=5)
    assert barrier_of(upstream=window).kept_up_to.number == 3
    nothing = barrier_of(upstream=window, read_before=(), parts=())
    assert (nothing.kept_up_to.number, nothing.kept_up_to_after.number) == (3, 5)


def test_a_window_is_pinned_for_each_upstream_and_positions_are_of_the_first():
    customers = window_of(2, 7, relation="customers", table_id="other")
    barrier = barrier_of(windows=(window_of(3, 5), customers))
    assert (barrier.upstream.relation, barrier.upstream.to_offset.number) == ("upstream", 5)
    assert Barrier.model_validate_json(barrier.model_dump_json()) == barrier
    later = customers.model_copy(update={"to_offset": Offset(8)})
    assert barrier.digest != barrier_of(windows=(window_of(3, 5), later)).digest, "each decides about rows"
    with pytest.raises(ValidationError):
        barrier_of(windows=())


def test_the_mark_of_a_sources_history_decides_no_rows():
    assert barrier_of(upstream=window_of(mark="then")).digest == barrier_of(upstream=window_of(mark="now")).digest


def test_a_barrier_without_parts_leaves_what_was_read():
    barrier = barrier_of(parts=())
    assert barrier.chunk(order_of("long")) == ()
    assert visible_after(barrier, order_of("long")) == (KeyRange(None, (5,)),)


@pytest.mark.parametrize("bounds", [(("1", "2"), None), (None, ("x",))])
def test_a_pinned_range_that_does_not_fit_the_key_is_refused(bounds):
    """I6."""
    after, up_to = bounds
    with pytest.raises(StateLayoutError):
        PinnedRange(after=after, up_to=up_to).decoded(order_of("long"))


def test_after_the_first_chunk_the_view_has_only_this_chunk():
    nothing = barrier_of(upstream=window_of(from_version=3, to_version=5), read_before=(), parts=())
    assert (nothing.view_before, nothing.view_after) == ((), ())
    assert (nothing.oldest_offset_after.number, nothing.changes_after.number) == (5, 3)


def test_changes_are_needed_after_the_oldest_offset_of_the_views_rows():
    waiting = barrier_of(upstream=window_of(from_version=3, to_version=5), publishes=False)
    assert [read.offset.number for read in waiting.view_after] == [3, 5]
    assert waiting.oldest_offset_after.number == 3


def test_a_published_view_is_as_of_the_window_at_whatever_offset_the_chunk_is_read():
    barrier = barrier_of(upstream=window_of(from_version=3, to_version=5), older_offset=4)
    assert barrier.view_after == (read_of(5, None, ("5",)), read_of(4, ("5",), ("9",)))


def test_an_epoch_that_publishes_waiting_changes_looks_for_them_also_without_a_new_version():
    waited = {"read_as_of": (read_of(1, None, ("5",)),), "upstream": window_of(from_version=3, to_version=3)}
    assert (barrier_of(**waited).has_window, barrier_of(**waited).most_rows) == (False, 1000)


# --- repairs --------------------------------------------------------------------------------------


def test_combined_repairs_name_each_vnode_and_key_once():
    both = Repair(vnodes=(3, 1), keys=(("b",), ("a",))) + Repair(vnodes=(1, 2), keys=(("a",), ("c",)))
    assert both == Repair(vnodes=(1, 2, 3), keys=(("b",), ("a",), ("c",)))


def test_vnodes_of_combined_repairs_are_in_order():
    """I2: the digest must not depend on the order of a set."""
    assert (Repair(vnodes=(9,)) + Repair(vnodes=(2,))).vnodes == (2, 9)


@pytest.mark.parametrize(
    ("repair", "asks"), [(Repair(), False), (Repair(vnodes=(0,)), True), (Repair(keys=((None,),)), True)]
)
def test_a_repair_of_nothing_asks_for_nothing(repair, asks):
    assert bool(repair) is asks

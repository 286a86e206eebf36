"""Models as rows of the control tables, and the per-vnode state in the key's own types."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from airflow_backfill_provider.core.epoch.barrier import Barrier, Mutation, PinnedMutation
from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit, EpochReport
from airflow_backfill_provider.core.epoch.settings import JobSettings, SettingsChange
from airflow_backfill_provider.core.errors import StateLayoutError
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.core.scan.keys import KeyField, KeyOrder
from airflow_backfill_provider.core.scan.progress import BackfillState, Completed, InProgress, NotStarted
from airflow_backfill_provider.state import records, stamps
from tests.builders import NOW, barrier_of, commit_of, order_of, report_of, settings_of, window_of

ORDER = order_of("long")


def parse(rows, order=ORDER, vnode_count=2, incarnation="a1"):
    return records.parse_state(
        rows, vnode_count=vnode_count, incarnation=incarnation, order=order, table="/vnode_state"
    )


def state_of(*vnodes, epoch=5):
    return BackfillState(epoch=epoch, vnodes=vnodes)


# --- the logs -------------------------------------------------------------------------------------


def columns_of(rows):
    """Return the columns of a table's one row that have a value, and its record."""
    (row,) = rows.to_pylist()
    record = row.pop("record")
    return {name: value for name, value in row.items() if value is not None}, record


def test_a_settings_row_has_the_columns_that_people_query():
    settings = settings_of(change=SettingsChange.THROTTLE, rate_limit=0, paused=True, finished_epoch=3)
    columns, record = columns_of(records.settings_row(settings))
    assert columns == {
        "sequence": 1,
        "change": "throttle",
        "paused": True,
        "rate_limit": 0,
        "cancelled": False,
        "finished_epoch": 3,
        "incarnation": "a1",
        "requested_by": "tester",
        "requested_at": NOW,
    }
    assert records.parse(JobSettings, record, "settings") == settings


def test_a_barriers_row_has_the_columns_that_people_query():
    mutations = tuple(
        PinnedMutation(mutation=kind, requested_by="vera", requested_at=NOW)
        for kind in (Mutation.PAUSE, Mutation.RESUME)
    )
    barrier = barrier_of(
        7, upstream=window_of(3, 9), mutations=mutations, injected_by=Requester(dag_id="d", run_id="r", task_id="t")
    )
    columns, record = columns_of(records.barrier_row(barrier))
    assert columns == {
        "epoch": 7,
        "event": "injected",
        "incarnation": "a1",
        "from_version": 3,
        "to_version": 9,
        "mutations": "pause, resume",
        "requested_by": "d.t of run r",
        "watermark": NOW,
        "at": barrier.injected_at,
    }
    assert records.parse(Barrier, record, "barrier_log") == barrier


def test_a_barriers_row_has_the_windows_end_also_if_its_chunk_is_of_an_older_version():
    (row,) = records.barrier_row(barrier_of(7, upstream=window_of(3, 9), older_offset=5)).to_pylist()
    assert (row["from_version"], row["to_version"]) == (3, 9)


@pytest.mark.parametrize(
    ("part", "counted"), [(None, {"upstream_output_row_count": 9}), (1, {"snapshot_read_row_count": 9})]
)
def test_a_reports_row_has_the_columns_that_people_query(part, counted):
    barrier = barrier_of(7, upstream=window_of(3, 9))
    report = report_of(barrier, part, rows={0: 4, 2: 5}, seconds={"changes": 0.5, "check": 0.25})
    columns, record = columns_of(records.report_row(barrier, report))
    assert columns == {
        "epoch": 7,
        "event": "reported",
        "incarnation": "a1",
        "from_version": 3,
        "to_version": 9,
        "requested_by": str(barrier.injected_by),
        **counted,
        "watermark": NOW,
        "seconds": 0.75,
        "at": report.reported_at,
    }
    assert records.parse(EpochReport, record, "barrier_log") == report


def test_a_commits_row_has_the_columns_that_people_query():
    barrier = barrier_of(7, upstream=window_of(3, 9))
    commit = commit_of(barrier)
    columns, record = columns_of(records.commit_row(barrier, commit))
    assert columns == {
        "epoch": 7,
        "event": "committed",
        "incarnation": "a1",
        "from_version": 3,
        "to_version": 9,
        "requested_by": str(barrier.injected_by),
        "snapshot_read_row_count": 100,
        "upstream_output_row_count": 3,
        "watermark": NOW,
        "seconds": 2.0,
        "at": commit.committed_at,
    }
    assert records.parse(EpochCommit, record, "barrier_log") == commit


@pytest.mark.parametrize(
    ("record", "wrong"),
    [
        ("", ""),
        ("{", ""),
        ("null", ""),
        ("[]", ""),
        ("{}", "job, incarnation, epoch"),
        ('{"epoch": "x"}', "epoch"),
        ('{"upstream": {}}', "windows"),
    ],
)
def test_a_garbage_record_is_damaged_state(record, wrong):
    """I6."""
    with pytest.raises(
        StateLayoutError, match="a record of control table /log is damaged or was written by another version"
    ) as caught:
        records.parse(Barrier, record, "/log")
    assert wrong in str(caught.value)


def test_a_record_of_a_newer_package_is_refused_with_the_field_it_does_not_know():
    record = barrier_of().model_dump_json().replace('"epoch":1,', '"epoch":1,"colour":3,', 1)
    with pytest.raises(StateLayoutError, match="colour"):
        records.parse(Barrier, record, "/log")


# --- the state ------------------------------------------------------------------------------------

POSITIONS = {
    "byte": 127,
    "short": -32768,
    "integer": 2**31 - 1,
    "long": -(2**63),
    "string": "ü'\u2028\x00\U0010ffff",
    "decimal(5,3)": Decimal("-99.999"),
    "decimal(20,2)": Decimal("123456789012345678.99"),
    "decimal(38,0)": Decimal("9" * 38),
    "date": dt.date(9999, 12, 31),
    "timestamp": dt.datetime(9999, 12, 31, 23, 59, 59, 999999, dt.UTC),
    "timestamp_ntz": dt.datetime(1, 1, 1, 0, 0, 0, 1),
    "binary": b"\x00\xff",
    "boolean": False,
}


@pytest.mark.parametrize("kind", POSITIONS)
def test_positions_of_every_type_are_read_back(kind):
    order = order_of(kind)
    for position in ((POSITIONS[kind],), (None,)):
        for progress in (InProgress(position, 3), Completed(position, 3)):
            state = state_of(progress, progress)
            assert parse(records.state_rows(state, "a1", order), order) == state


@pytest.mark.parametrize(
    "vnodes",
    [
        (NotStarted(), NotStarted()),
        (Completed(None, 0), Completed(None, 0)),
        (Completed(None, 7), Completed((None,), 7)),
        (NotStarted(), InProgress((None,), 0)),
        (InProgress((3,), 1), InProgress((4,), 1)),
        (InProgress((3,), 1), Completed((3,), 1)),
    ],
)
def test_no_position_and_the_position_of_a_null_key_stay_different(vnodes):
    """docs/concepts/rules.md#no-position-is-not-the-null-key, and each vnode keeps its own progress."""
    state = state_of(*vnodes)
    assert parse(records.state_rows(state, "a1", ORDER)) == state


def test_vnodes_are_read_in_order_however_the_rows_come():
    state = state_of(*(InProgress((n,), n) for n in range(20)))
    rows = records.state_rows(state, "a1", ORDER)
    assert parse(rows.take(pa.array(list(range(20))[::-1])), vnode_count=20) == state


def test_the_states_columns_are_vnode_key_finished_count_and_epoch():
    """Issue part 2: ``vnode, key…, backfill_finished, row_count, epoch``."""
    names = records.state_schema(order_of("string", "long")).names
    assert names[:3] == ["vnode", "k1", "k2"]
    assert set(names[3:]) == {"has_position", "backfill_finished", "row_count", "epoch", "incarnation"}


CLASHING = ["vnode", "epoch", "EPOCH", "row_count", "backfill_finished", "has_position", "incarnation"]
CLASHING += [stamps.VERSION, stamps.CHECKSUM]


@pytest.mark.parametrize("name", CLASHING)
def test_a_key_column_may_be_named_like_a_column_of_the_state(name):
    order = KeyOrder((KeyField(name=name, type="string"), KeyField(name="other", type="long")))
    state = state_of(*[InProgress(("x", 5), 1)] * 2)
    rows = records.state_rows(state, "a1", order)
    assert len({column.lower() for column in rows.column_names}) == len(rows.column_names)
    assert not {stamps.VERSION, stamps.CHECKSUM} & set(rows.column_names)
    assert parse(rows, order) == state


def test_key_columns_may_be_named_like_the_names_that_clashing_ones_get():
    order = KeyOrder((KeyField(name="vnode", type="string"), KeyField(name="key_vnode", type="long")))
    state = state_of(*[InProgress(("x", 5), 1)] * 2)
    assert parse(records.state_rows(state, "a1", order), order) == state


def rows_of(*vnodes, epoch=5, incarnation="a1"):
    return records.state_rows(state_of(*vnodes, epoch=epoch), incarnation, ORDER)


def replaced(rows, name, values):
    index = rows.column_names.index(name)
    return rows.set_column(index, name, pa.array(values, rows.schema.field(name).type))


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (rows_of(NotStarted()), "has 1 rows, but not exactly one for each of the vnodes 0 to 1"),
        (rows_of(*[NotStarted()] * 3), "has 3 rows"),
        (rows_of().slice(0, 0), "has 0 rows"),
        (replaced(rows_of(*[NotStarted()] * 2), "vnode", [0, 0]), "has 2 rows"),
        (replaced(rows_of(*[NotStarted()] * 2), "vnode", [1, 2]), "has 2 rows"),
        (replaced(rows_of(*[NotStarted()] * 2), "epoch", [1, 2]), r"mixes epochs \[1, 2\]"),
        (replaced(rows_of(*[NotStarted()] * 2), "incarnation", ["a1", "b2"]), "another incarnation"),
        (rows_of(*[NotStarted()] * 2, incarnation="b2"), "another incarnation"),
    ],
)
def test_a_state_that_is_not_whole_is_refused(rows, said):
    """I6 and docs/concepts/rules.md#state-is-written-when-it-changes: read back and checked."""
    with pytest.raises(StateLayoutError, match=said) as caught:
        parse(rows)
    assert "rebuild the job" in str(caught.value)


@pytest.mark.parametrize("count", [1, 7, 256, 32_768])
def test_any_number_of_vnodes_is_read_back(count):
    state = state_of(*[InProgress((3,), 9)] * count)
    assert parse(records.state_rows(state, "a1", ORDER), vnode_count=count) == state

"""Control tables that are damaged, edited or incomplete are refused (I6)."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_backfill_provider.core.epoch.settings import SettingsChange
from airflow_backfill_provider.core.errors import StateError, StateLayoutError
from airflow_backfill_provider.core.scan.progress import BackfillState, Completed
from airflow_backfill_provider.state import records, stamps
from airflow_backfill_provider.state.backfill_reader import BackfillReader
from airflow_backfill_provider.state.control_table import ControlTable, Write
from airflow_backfill_provider.state.store import BackfillStore
from tests.builders import NOW, barrier_of, commit_file, commit_of, settings_of
from tests.unit.state.store_helpers import at_position, used

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


@pytest.mark.parametrize("column", ["vnode", "epoch", "row_count", "backfill_finished", "has_position", "incarnation"])
def test_a_null_in_the_state_is_refused(store, column):
    """I6: these columns are never null."""
    DeltaTable(f"{store.location}/vnode_state").update({column: "NULL"}, predicate="vnode = 2")
    for look in (store.state, store.repair_state, lambda: store.write_state(at_position(7, epoch=1), settings_of())):
        with pytest.raises(StateError, match=r"vnode_state: row __version 1 .* a wrong checksum.* rebuild the job"):
            look()


LOOKS = {
    "settings": [BackfillReader.created, BackfillReader.settings, BackfillReader.state],
    "barrier_log": [
        BackfillReader.barriers,
        BackfillReader.commits,
        BackfillReader.log_end,
        lambda store: store.pin(barrier_of(2)),
    ],
    "vnode_state": [
        BackfillReader.state,
        BackfillStore.repair_state,
        lambda store: store.write_state(at_position(10, epoch=2, rows=9), settings_of()),
    ],
}


@pytest.mark.parametrize("damage", ["log", "data"])
@pytest.mark.parametrize("name", LOOKS)
def test_a_damaged_control_table_is_refused_whatever_is_asked(store, name, damage):
    """I6: unreadable control tables are not overwritten."""
    used(store)
    location = Path(store.location) / name
    if damage == "log":
        newest = commit_file(location, DeltaTable(str(location)).version())
        newest.write_bytes(newest.read_bytes()[:50])
    else:
        for file in location.glob("*.parquet"):
            file.write_bytes(b"PAR1")
    for look in LOOKS[name]:
        with pytest.raises(StateLayoutError) as caught:
            look(store)
        assert str(location) in str(caught.value)


@pytest.mark.parametrize("name", ["settings", "barrier_log"])
def test_a_record_that_somebody_edited_is_refused(store, name):
    """I6."""
    used(store)
    table = DeltaTable(f"{store.location}/{name}")
    table.update(updates={"record": "'{\"epoch\": 1}'"})
    with pytest.raises(StateError, match=r"row __version \d+ .* has a wrong checksum"):
        store.settings() if name == "settings" else store.barriers()


@pytest.mark.parametrize("name", ["settings", "barrier_log"])
def test_a_record_that_another_version_wrote_is_refused_with_its_table(store, name):
    used(store)
    row = records.settings_row(store.settings()) if name == "settings" else records.barrier_row(barrier_of(2))
    record = row.schema.get_field_index("record")
    written = row.set_column(record, row.schema.field(record), [['{"of": "another version"}']])
    ControlTable(f"{store.location}/{name}", row.schema).update(lambda _: Write(written))
    with pytest.raises(StateLayoutError, match=f"a record of control table {store.location}/{name} is damaged"):
        store.settings() if name == "settings" else store.barriers()


@pytest.mark.parametrize("column", ["id", "row_count", "backfill_finished"])
def test_progress_that_somebody_edited_is_refused(store, column):
    """I6: with a later position, rows would be left out."""
    used(store)
    value = "true" if column == "backfill_finished" else "77"
    DeltaTable(f"{store.location}/vnode_state").update(updates={column: value}, predicate="vnode = 2")
    with pytest.raises(StateError, match=r"vnode_state: row __version \d+ \(vnode 2\) has a wrong checksum"):
        store.state()


@pytest.mark.parametrize("gone", ["epoch = 1", "epoch = 1 AND event = 'injected'", "epoch = 2", "true"])
def test_a_log_with_a_gap_is_refused(store, gone):
    """I6: also if the rows of the newest epochs are complete."""
    used(store)
    store.pin(barrier_of(2))
    store.record_commit(barrier_of(2), commit_of(barrier_of(2)))
    DeltaTable(f"{store.location}/barrier_log").delete(gone)
    with pytest.raises(StateError, match="missing"):
        store.log()
    if "1" not in gone:
        with pytest.raises(StateError, match="missing"):
            store.log_end()


@pytest.mark.parametrize("gone", ["sequence = 1", "sequence = 2", "sequence = 3"])
def test_settings_with_a_gap_are_refused(store, gone):
    """I6: if a pause was lost, the job would read on."""
    for value in (5, 6):
        store.change_settings(
            lambda settings: settings.changed(
                SettingsChange.THROTTLE,
                requested_by="tester",
                requested_at=NOW,
                rate_limit=value,  # noqa: B023
            )
        )
    DeltaTable(f"{store.location}/settings").delete(gone)
    with pytest.raises(StateError, match="missing"):
        store.settings()


def test_a_record_that_is_there_twice_is_refused(store):
    used(store)
    rows = pa.table(DeltaTable(f"{store.location}/settings").to_pyarrow_table())
    write_deltalake(f"{store.location}/settings", rows, mode="append")
    with pytest.raises(StateError, match=r"row __version 1 \(sequence 1\) is repeated"):
        store.settings()


def test_rows_that_somebody_appended_to_the_state_are_refused(store):
    used(store)
    rows = records.state_rows(at_position(1, epoch=1, vnodes=1), "a1", settings_of().key_order)
    write_deltalake(f"{store.location}/vnode_state", stamps.stamped(rows, 2), mode="append")
    with pytest.raises(StateLayoutError, match=f"{store.location}/vnode_state has 5 rows"):
        store.state()


def test_a_completed_vnode_cannot_become_incomplete(store):
    """I3: a completed vnode is never scanned again."""
    store.write_state(BackfillState(epoch=1, vnodes=(Completed(None, 9),) * 4), settings_of())
    with pytest.raises(StateError, match="vnode 0 would go back"):
        store.write_state(at_position(7, epoch=2, rows=20), settings_of())


@pytest.mark.parametrize("loss", ["table", "rows"])
def test_a_lost_state_is_not_created_again(store, loss):
    """I6: with epochs in the log, an empty state would read and append every row a second time."""
    used(store)
    location = Path(store.location) / "vnode_state"
    if loss == "table":
        for file in sorted(location.rglob("*"), reverse=True):
            file.unlink() if file.is_file() else file.rmdir()
    else:
        DeltaTable(str(location)).delete()
    with pytest.raises(StateError):
        store.repair_state()

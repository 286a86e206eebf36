"""The control tables of a job that is rebuilt, and its earlier incarnations."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.epoch.settings import SettingsChange
from airflow_backfill_provider.core.errors import StateLayoutError
from airflow_backfill_provider.core.scan.progress import BackfillState, InProgress, NotStarted
from tests.builders import NOW, job_of, settings_of
from tests.unit.state.store_helpers import at_position, changed, versions


def test_earlier_incarnations_have_their_highest_parallelism(store):
    """I5: a rebuild fences the writes of every task run that may still be active."""

    def change(kind, **fields):
        store.change_settings(lambda s: s.changed(kind, requested_by="x", requested_at=NOW, **fields))

    assert store.earlier_incarnations(store.settings()) == {}
    for parallelism in (3, 2):
        change(SettingsChange.RESCALE, parallelism=parallelism, value=parallelism)
    change(SettingsChange.REBUILD, incarnation="b2", parallelism=1)
    change(SettingsChange.RESCALE, parallelism=5, value=5)
    assert store.earlier_incarnations(store.settings()) == {"a1": 3}
    change(SettingsChange.REBUILD, incarnation="c3", parallelism=1)
    assert store.earlier_incarnations(store.settings()) == {"a1": 3, "b2": 5}
    change(SettingsChange.REBUILD, incarnation="d4", parallelism=2)
    assert store.earlier_incarnations(store.settings()) == {"a1": 3, "b2": 5, "c3": 1}
    assert store.incarnations() == {"a1", "b2", "c3", "d4"}


def rebuilt(settings, **fields):
    return changed(
        settings,
        SettingsChange.REBUILD,
        **{"incarnation": "b2", "state_table": "vnode_state_b2", "base_epoch": 4, **fields},
    )


def test_a_rebuilt_job_starts_over_from_its_base_epoch(store):
    store.write_state(at_position(7, epoch=4, rows=5), settings_of())
    store.change_settings(rebuilt)
    with pytest.raises(StateLayoutError, match="is missing"):
        store.state()
    store.repair_state()
    assert store.state() == BackfillState(epoch=4, vnodes=(NotStarted(),) * 4)


def test_repairing_leaves_alone_what_an_epoch_of_the_incarnation_wrote(store):
    store.write_state(at_position(7, epoch=4, rows=5), settings_of())
    before = versions(store)
    store.repair_state()
    assert versions(store) == before


def test_a_state_belongs_to_the_settings_that_are_given(store):
    """I5: an attempt that began before a rebuild decides on the state of that time."""
    store.write_state(at_position(7, epoch=1, rows=5), settings_of())
    before = store.settings()
    rebuilt = {"incarnation": "b2", "state_table": "vnode_state_b2", "base_epoch": 1}
    store.change_settings(lambda s: s.changed(SettingsChange.REBUILD, requested_by="x", requested_at=NOW, **rebuilt))
    assert store.repair_state() == BackfillState(epoch=1, vnodes=(NotStarted(),) * 4)
    assert store.repair_state(before) == store.state_of(before) == at_position(7, epoch=1, rows=5)


def test_a_rebuilt_job_may_have_another_number_of_vnodes(store):
    store.change_settings(lambda s: rebuilt(s, job=job_of(vnode_count=9).model_dump(mode="json")))
    store.repair_state()
    assert len(store.state().vnodes) == 9


@pytest.mark.parametrize(
    ("types", "position"),
    [
        ({"status": "string"}, ("paid",)),
        ({"id": "string"}, ("abc",)),
        ({"id": "long", "status": "string"}, (7, "paid")),
    ],
)
def test_a_rebuilt_job_may_have_another_key(store, types, position):
    """A rebuild takes another definition. The error about a changed schema asks for a rebuild."""
    job = job_of(upstream={"path": "/lake/orders", "key": list(types)}, query="SELECT * FROM upstream")
    resolved = settings_of(job, types=types).upstream
    settings = store.change_settings(lambda s: rebuilt(s, job=job.model_dump(mode="json"), upstream=resolved))
    store.repair_state()
    assert store.state() == BackfillState(epoch=4, vnodes=(NotStarted(),) * 4)
    state = BackfillState(epoch=5, vnodes=(InProgress(position, 1),) * 4)
    store.write_state(state, settings)
    assert store.state() == state

"""The control tables after a thousand epochs: how much they hold by then does not depend on how many there were."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from deltalake import DeltaTable

from airflow_backfill_provider.core.scan.progress import BackfillState, InProgress
from airflow_backfill_provider.state import control_table
from airflow_backfill_provider.state.store import BackfillStore
from tests.builders import barrier_of, commit_of, settings_of

pytestmark = pytest.mark.slow

EPOCHS = 1000
TABLES = ("settings", "barrier_log", "vnode_state")


def sizes(store: BackfillStore) -> dict[str, Counter[str]]:
    """Count what lies in each table's folder: data files, commits, checkpoints, and the log's bytes."""
    found = {}
    for name in TABLES:
        folder = Path(store.location, name)
        log = list((folder / "_delta_log").iterdir())
        found[name] = Counter(
            data=len(list(folder.glob("*.parquet"))),
            commits=sum(file.suffix == ".json" for file in log),
            checkpoints=sum(file.suffix == ".parquet" for file in log),
            log_bytes=sum(file.stat().st_size for file in log),
        )
    return found


@pytest.mark.exhaustive
def test_a_thousand_epochs_leave_as_many_files_as_a_hundred(lake: Path, monkeypatch):
    """As if more time than the retention lay between any two epochs."""
    monkeypatch.setattr(control_table, "RETENTION", "interval 0 seconds")
    store = BackfillStore(str(lake / "state"))
    settings = store.create(settings_of())
    most = {name: Counter[str]() for name in TABLES}
    for epoch in range(1, EPOCHS + 1):
        barrier = store.pin(barrier_of(epoch))
        store.write_state(BackfillState(epoch, (InProgress((epoch,), epoch),) * 4), settings)
        store.record_commit(barrier, commit_of(barrier))
        if epoch % 10 == 0:
            for name, counted in sizes(store).items():
                most[name] |= counted

    assert store.last_epoch() == EPOCHS
    assert [commit.epoch for commit in store.commits()] == list(range(1, EPOCHS + 1))
    assert DeltaTable(f"{store.location}/barrier_log").version() > 2 * EPOCHS
    # Between two removals: a hundred versions, and of the barrier log what they were written together from.
    assert most["barrier_log"]["data"] <= 200
    assert most["vnode_state"]["data"] <= 100
    for name in ("barrier_log", "vnode_state"):
        # Twenty versions make a checkpoint, and the entries before it are gone.
        assert most[name]["commits"] <= 21
        assert most[name]["checkpoints"] <= 2
    assert sizes(store)["settings"] == Counter(
        data=1, commits=2, checkpoints=0, log_bytes=most["settings"]["log_bytes"]
    )

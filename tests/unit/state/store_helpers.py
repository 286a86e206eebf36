"""What the tests of a job's control tables share: states, versions of the tables, and threads that start together."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from deltalake import DeltaTable

from airflow_backfill_provider.core.epoch.settings import SettingsChange
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.core.scan.progress import BackfillState, InProgress, NotStarted
from tests.builders import NOW, barrier_of, commit_of, settings_of

TASK = Requester(dag_id="o'brien's dag", run_id="manual__2026-01-01T00:00:00+00:00", task_id="inject")


def nothing_read(vnodes):
    return BackfillState(epoch=0, vnodes=(NotStarted(),) * vnodes)


def at_position(value, *, epoch, rows=0, vnodes=4):
    return BackfillState(epoch=epoch, vnodes=(InProgress((value,), rows),) * vnodes)


def versions(store):
    """The version of each control table."""
    return {
        name: DeltaTable(f"{store.location}/{name}").version() for name in ("settings", "barrier_log", "vnode_state")
    }


def together(count, work):
    """Do something in several threads at the same moment."""
    start = threading.Barrier(count)

    def begin(number):
        start.wait()
        return work(number)

    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(begin, range(count)))


def changed(settings, change=SettingsChange.PAUSE, **fields):
    return settings.changed(change, requested_by="vera", requested_at=NOW, **fields)


def used(store):
    """Give a store something to lose."""
    barrier = store.pin(barrier_of(1, read_before=()))
    store.write_state(at_position(9, epoch=1, rows=5), settings_of())
    store.record_commit(barrier, commit_of(barrier))
    return barrier

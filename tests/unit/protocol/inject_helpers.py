"""
What the tests of injecting have in common: the jobs that barriers are injected for.

Each test module assigns the fixtures it needs to their own names, because pytest looks for fixtures in the module.
"""

from __future__ import annotations

import datetime as dt

import pytest
from deltalake import DeltaTable

from airflow_backfill_provider.core.job.requester import Requester
from tests.builders import NOW, commit_file, committed_at
from tests.property.backfilling import Backfilling, Prepared

TASK = Requester(dag_id="orders", run_id="manual__1", task_id="inject")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    return Prepared(tmp_path_factory.mktemp("prepared"), range(7), rate_limit=3)


@pytest.fixture
def backfilling(prepared):
    """A created job over the orders 0 to 6, three rows an epoch."""
    return prepared.restore()


def over(lake, *ids, **job):
    made = Backfilling(lake, **job)
    made.orders.add(*ids)
    made.create()
    return made


def write_a_version_without_rows(backfilling):
    DeltaTable(backfilling.orders.path).alter.set_table_properties({"delta.logRetentionDuration": "interval 9 days"})


def minute(number):
    return NOW + dt.timedelta(minutes=number)


@pytest.fixture
def dated(lake):
    """A created job over five versions with one order each, committed at the minutes 0 to 4; one row an epoch."""
    made = Backfilling(lake, rate_limit=1)
    for i in range(5):
        made.orders.add(i)
        committed_at(made.orders.path, i, minute(i))
    made.create()
    return made


def clean_up(backfilling, up_to):
    DeltaTable(backfilling.orders.path).create_checkpoint()
    for version in range(up_to + 1):
        commit_file(backfilling.orders.path, version).unlink()

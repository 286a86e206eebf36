"""The chain of a job whose upstream is another job's view, and from which version on it may read that."""

from __future__ import annotations

import pytest
from deltalake import DeltaTable

from airflow_backfill_provider.core.errors import UpstreamNotFinishedError
from airflow_backfill_provider.core.job.upstream_view import UpstreamView
from airflow_backfill_provider.jobs.chain import MOST_JOBS, chain_of
from airflow_backfill_provider.lake.tables.view_identity import (
    FINISHED_PROPERTY,
    INCARNATION_PROPERTY,
    JOB_PROPERTY,
    STATE_PROPERTY,
)
from tests.property.backfilling import Backfilling

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


def be_view(reader, finished, writer=None):
    """Let the upstream of a job be the view of another one."""
    said = {JOB_PROPERTY: "first", FINISHED_PROPERTY: finished}
    if writer is not None:
        settings = writer.store.settings()
        said |= {
            JOB_PROPERTY: writer.job.name,
            INCARNATION_PROPERTY: settings.incarnation,
            STATE_PROPERTY: writer.job.state,
        }
    DeltaTable(reader.orders.path).alter.set_table_properties(said, raise_if_not_exists=False)


def view_of(writer, *, finished=False):
    settings = writer.store.settings()
    return UpstreamView(
        location=writer.job.materialized_view,
        job=writer.job.name,
        incarnation=settings.incarnation,
        state=writer.job.state,
        is_finished=finished,
    )


def backfilling(folder, name):
    folder.mkdir()
    made = Backfilling(folder, name=name)
    made.orders.add(*range(10))
    return made


def test_a_scheduled_run_reads_no_version_from_before_the_finish(lake):
    """I7: a version of an unfinished view is not whole, so a window never ends at one."""
    reader = Backfilling(lake)
    reader.orders.add(*range(3))
    be_view(reader, "false")
    before = reader.orders.table.watermark(reader.orders.table.latest())
    be_view(reader, "true")
    reader.create()
    injection = reader.ask(until=before)
    assert injection.barrier is None
    assert injection.reason == "the upstream is a view that was not finished as of offset 1"
    assert reader.store.barriers() == []
    assert reader.inject().upstream.to_offset.number == 2


def test_a_scheduled_run_waits_if_the_view_is_not_finished_by_now(lake):
    reader = Backfilling(lake)
    reader.orders.add(*range(3))
    reader.create()
    be_view(reader, "false")
    with pytest.raises(UpstreamNotFinishedError, match="waits for first: "):
        reader.ask()


def test_a_chain_is_followed_from_view_to_view_to_its_root(lake):
    first, second = backfilling(lake / "a", "first"), backfilling(lake / "b", "second")
    first.create()
    be_view(second, "true", first)
    second.create()
    second.epoch()
    be_view(second, "false", first)
    chain = chain_of(view_of(second))
    assert [str(job) for job in chain] == ["first, 0 %", "second, 30 %"]
    assert [job.state for job in chain] == [first.job.state, second.job.state]
    assert [job.materialized_view for job in chain] == [second.orders.path, second.job.materialized_view]


def test_a_chain_that_is_a_circle_ends(lake):
    """Somebody may copy the properties of a view."""
    only = backfilling(lake / "a", "only")
    only.create()
    be_view(only, "true", only)
    assert len(chain_of(view_of(only))) == MOST_JOBS


def test_a_table_that_is_no_view_has_no_chain():
    assert chain_of(None) == ()

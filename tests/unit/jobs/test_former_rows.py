"""A view that keeps former rows is not replaced, unless somebody says that they may be lost."""

from __future__ import annotations

import pytest

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.errors import (
    InvalidJobError,
    MaterializedViewError,
)
from airflow_backfill_provider.core.job.keep import Keep
from airflow_backfill_provider.core.job.upstream_view import UpstreamView
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.jobs import creation, revert, succession
from airflow_backfill_provider.jobs.resolution import resolve_upstream
from airflow_backfill_provider.sources.description import UpstreamDescription
from tests.builders import PAID, job_of
from tests.property.backfilling import Backfilling

pytestmark = pytest.mark.slow  # whole epochs through Delta tables

LOST = "keeps former rows .keep: history., which a rebuild or its revert would lose for good; say --discard-history"


@pytest.fixture
def kept(lake):
    """A finished view that keeps the history of its keys."""
    made = Backfilling(lake, keep="history")
    made.orders.add(*range(5))
    made.create()
    made.finish()
    protocol.finish_job(store=made.store, requested_by="x")
    return made


def start_over(made, action, **fields):
    return action(
        made.job,
        store=made.store,
        upstream=made.orders.table,
        engine=made.engine,
        requested_by="x",
        clock=made.clock,
        **fields,
    )


@pytest.mark.parametrize("action", [creation.rebuild_job, succession.grow_successor])
def test_a_rebuild_has_to_say_that_former_rows_may_be_lost(kept, action):
    before = kept.store.settings()
    with pytest.raises(MaterializedViewError, match=LOST):
        start_over(kept, action)
    assert kept.store.settings() == before
    start_over(kept, action, discard_history=True)
    assert kept.store.settings() != before


def test_the_definition_that_counts_is_that_of_the_view_which_is_there(kept):
    """I6: the new definition keeps nothing, and that is how the history would be lost."""
    with pytest.raises(MaterializedViewError, match=LOST):
        kept.rebuild(keep="latest", query=PAID)


def test_a_view_without_rows_loses_none(lake):
    made = Backfilling(lake, keep="history")
    made.orders.add(*range(5))
    made.create()
    made.rebuild(query=PAID)
    assert made.store.settings().job["query"] == PAID


def test_a_revert_has_to_say_so_too(kept):
    start_over(kept, creation.rebuild_job, discard_history=True)
    kept.finish()
    with pytest.raises(MaterializedViewError, match=LOST):
        revert.put_back(kept.store, engine=kept.engine, requested_by="x", clock=kept.clock)


@pytest.mark.parametrize(
    ("keep", "key", "query", "said"),
    [
        ("history", ["id"], "SELECT id FROM upstream WHERE _is_current", "add _valid_from to upstream.key$"),
        ("history", ["id", "_valid_from"], "SELECT id FROM upstream", "the present ones with WHERE _is_current$"),
        ("history", ["id"], "SELECT id FROM upstream", "to upstream.key; the query takes all of them: read the"),
        ("deleted", ["id"], "SELECT id FROM upstream", "the present ones with WHERE _deleted_at IS NULL$"),
        ("history", ["id", "_valid_from"], "SELECT id, _valid_from, _valid_to FROM upstream", ""),
        ("deleted", ["id"], "SELECT * FROM upstream", ""),
    ],
)
def test_a_job_that_reads_former_rows_has_to_say_which(keep, key, query, said):
    """I6: its rows with one key would be several rows of that key, and rows that have ended would count."""
    types = dict.fromkeys(Keep(keep).columns, "long")
    view = UpstreamView(
        location="/lake/view", job="orders", incarnation="a", state="/lake/state", is_finished=True, keep=keep
    )
    described = UpstreamDescription(
        location="/lake/view", offset=Offset(7), table_id="t", types={"id": "long", **types}, view=view
    )
    job = job_of(upstream={"path": "/lake/view", "key": key}, materialized_view="/lake/other", query=query)
    if not said:
        assert resolve_upstream(job, described).types.keys() & types.keys()
        return
    with pytest.raises(InvalidJobError, match=f"^upstream: /lake/view is the view of job orders and keeps .*{said}"):
        resolve_upstream(job, described)

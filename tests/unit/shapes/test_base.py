"""What a shape declares is in force: a toy shape of groups, whose units are not the upstream's rows."""

from __future__ import annotations

import dataclasses
import datetime as dt

import pytest

from airflow_backfill_provider.core.epoch.repair import Repair
from airflow_backfill_provider.core.epoch.settings import JobSettings, ViewColumn
from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.kinds import shape_of
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.jobs import mutations
from airflow_backfill_provider.shapes import KINDS
from airflow_backfill_provider.sources import open_source
from airflow_backfill_provider.sources.delta.source import DeltaSource
from airflow_backfill_provider.sources.description import UpstreamDescription
from airflow_backfill_provider.sources.kafka.source import KafkaSource
from airflow_backfill_provider.sources.upserts.source import UpsertsSource
from airflow_backfill_provider.strategies.choice import choose_strategy
from tests.builders import Orders, barrier_of, job_of, settings_of
from tests.toy_groups import Tally

QUERY = "SELECT amount AS bucket, count(*) AS n FROM upstream GROUP BY amount"
TYPES = {"id": "long", "status": "string", "amount": "long"}


@pytest.fixture(autouse=True)
def _registered():
    KINDS.register(Tally(), before="group")
    yield
    KINDS.forget(Tally.name)


# --- a job's definition ---------------------------------------------------------------------------


def test_the_refusal_is_that_of_the_shape_that_claims_the_text():
    """I6: a reader who wrote groups is not told that the query must be row-level."""
    with pytest.raises(InvalidJobError, match="a tally counts the rows of each bucket as n"):
        shape_of("SELECT amount AS bucket, sum(rand()) AS n FROM upstream GROUP BY amount")
    with pytest.raises(InvalidJobError, match="explode, which returns several rows"):
        shape_of("SELECT explode(tags) FROM upstream")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"strategy": "snapshot"},
            "strategy: snapshot cannot fill a view of shape tally; use auto, or arr",
        ),
        ({"visibility": "on_finish"}, "visibility: a view of shape tally has every_epoch only; leave visibility out"),
        ({"parallelism": 2}, "parallelism: 2 task runs cannot write a view of shape tally together; leave it out"),
    ],
)
def test_a_job_that_asks_for_what_its_shape_cannot_do_is_refused_by_name(fields, said):
    with pytest.raises(InvalidJobError, match=said):
        job_of(query=QUERY, **fields)


def test_the_only_visibility_of_a_shape_is_the_default_of_its_jobs(monkeypatch):
    monkeypatch.setattr(Tally, "only_visibility", "on_finish")
    assert job_of(query=QUERY).visibility == "on_finish"


def test_auto_chooses_among_the_strategies_of_the_shape(tmp_path, monkeypatch):
    orders = Orders(tmp_path)
    orders.add(1, 2, 3)
    table = orders.table
    job = job_of(query=QUERY, upstream={"path": table.location, "key": ["id"]})
    assert choose_strategy(job, table, table.at()).strategy.name == "no_shuffle"
    monkeypatch.setattr(Tally, "strategies", frozenset({"cdc"}))
    with pytest.raises(InvalidJobError, match="shape tally is filled by strategy cdc, and none of these can read"):
        choose_strategy(job, table, table.at())


# --- the upstream's changes -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("upstream", "said"),
    [
        ({"postgres": {"connection": "shop", "table": "orders", "key": ["id"]}}, r"removed at once \(TRUNCATE\)"),
        ({"debezium": {"path": "/lake/events", "key": ["id"]}}, r"removed at once \(TRUNCATE\)"),
        (
            {"upserts": {"path": "/lake/upserts", "key": ["id"], "ordered_by": ["at"]}},
            "needs the value that amount had before a change, and changes of /lake/upserts have only id of that",
        ),
    ],
)
def test_an_upstream_whose_changes_lack_old_values_is_refused_with_what_to_do(upstream, said):
    """I6: without them, a row that changes its group stays in the old one."""
    job = job_of(query=QUERY, upstream=upstream)
    source = open_source(job.upstream)
    described = UpstreamDescription(location=source.location, offset=Offset(1), table_id="t", types=TYPES)
    with pytest.raises(InvalidJobError, match=said) as refused:
        choose_strategy(job, source, described)
    assert "make a view of its rows first (SELECT … FROM upstream)" in str(refused.value)


def test_each_source_says_which_old_values_its_changes_have():
    assert (DeltaSource("/lake/orders").old_columns, DeltaSource("/lake/orders").may_be_cleared) == (None, False)
    topic = job_of(upstream={"kafka": {"connection": "events", "topic": "orders"}}, query="SELECT value FROM upstream")
    assert (KafkaSource(topic.upstream).old_columns, KafkaSource(topic.upstream).may_be_cleared) == (None, False)
    upserts = job_of(
        upstream={"upserts": {"path": "/u", "key": ["id"], "distribution_key": ["status"], "ordered_by": ["at"]}}
    )
    assert UpsertsSource(upserts.upstream).old_columns == {"id", "status"}


# --- a job's settings -----------------------------------------------------------------------------


def settings() -> JobSettings:
    columns = (ViewColumn(name="bucket", type="long"), ViewColumn(name="n", type="long"))
    return settings_of(job_of(query=QUERY), shape="tally", view_columns=columns)


def test_pinned_columns_of_a_view_are_a_part_of_the_settings_and_those_of_a_row_view_leave_no_trace():
    """Jobs that were created before a shape could pin columns keep their digests."""
    assert "view_columns" not in settings_of().model_dump()
    pinned = settings()
    assert JobSettings(**pinned.model_dump()).view_types == {"bucket": "long", "n": "long"}
    assert pinned.definition_digest != pinned.model_copy(update={"view_columns": ()}).definition_digest


# --- repairs --------------------------------------------------------------------------------------


@dataclasses.dataclass
class Store:
    """The settings of a job, in memory."""

    known: JobSettings

    def settings(self):
        return self.known

    def newest_barrier(self, settings):
        return None

    def change_settings(self, change):
        return change(self.known) or self.known


def repair(job=None, **chosen):
    clock = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    return mutations.repair_job(store=Store(job or settings()), requested_by="x", clock=lambda: clock, **chosen).repair


def test_a_group_is_repaired_as_a_unit_and_never_as_a_key_of_the_upstream():
    """I6: group 3 is another thing than the upstream's key 3."""
    assert repair(units=[3, "3", [None]], vnodes=[1]) == Repair(vnodes=(1,), units=(("3",), (None,)))
    with pytest.raises(InvalidJobError, match="keys do not name them; name units, each with a value for bucket, or vn"):
        repair(keys=[3])
    with pytest.raises(InvalidJobError, match="is not a unit of the view"):
        repair(units=["c3"])


def test_units_of_a_row_view_are_the_upstreams_keys():
    assert repair(settings_of(), units=[3], keys=[4]) == Repair(keys=(("4",), ("3",)))
    assert "units" not in barrier_of(repair=Repair(keys=(("3",),))).model_dump()["repair"]
    assert Repair(units=(("1",),)) + Repair(units=(("2",), ("1",)), vnodes=(0,)) == Repair(
        vnodes=(0,), units=(("1",), ("2",))
    )

"""What an upstream is held to, whatever its kind."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.epoch.settings import ResolvedUpstream, UpstreamColumn
from airflow_backfill_provider.core.errors import InvalidJobError, UpstreamReplacedError, UpstreamSchemaChangedError
from airflow_backfill_provider.core.job.upstream import KeyColumn
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.sources.description import UpstreamDescription, other_table


def described(**types):
    types = types or {"id": "long", "name": "string", "extra": "date"}
    return UpstreamDescription(location="/lake/orders", offset=Offset(7), table_id="t1", types=types)


def created(table_id="t1", **types):
    types = types or {"id": "long", "name": "string"}
    return ResolvedUpstream(
        table_id=table_id, columns=tuple(UpstreamColumn(name=name, type=kind) for name, kind in types.items())
    )


def test_the_order_of_a_key_has_types_of_the_upstream_and_directions_of_the_job():
    order = described().key_order([KeyColumn(column="name", descending=True), KeyColumn(column="id")])
    assert [(field.name, field.type, field.descending) for field in order.fields] == [
        ("name", "string", True),
        ("id", "long", False),
    ]


def test_columns_that_the_job_does_not_use_may_come_and_change():
    described().require_as_created(created())
    assert described().differences_from(created()) == []


def test_used_columns_that_are_gone_or_of_another_type_are_all_named():
    """I6."""
    with pytest.raises(UpstreamSchemaChangedError) as refused:
        described(id="string", extra="date").require_as_created(created())
    assert "/lake/orders has changed since the job was created, as of version 7" in str(refused.value)
    assert "column id was long and is string; column name is gone; adapt the job's query" in str(refused.value)


def test_another_table_is_refused_before_its_columns_are_looked_at():
    with pytest.raises(UpstreamReplacedError, match="/lake/orders holds table t1, but the job was created on table t0"):
        described(other="long").require_as_created(created("t0"))


def test_a_table_is_known_by_its_id():
    assert other_table("/t", "a", "a") == ""
    assert other_table("/t", "a", "b") == "/t holds table a, but the job was created on table b"


@pytest.mark.parametrize(("used", "named"), [(["id"], "id and ID"), (["ID", "name"], "ID and id")])
def test_a_used_column_beside_one_that_differs_in_case_is_refused_by_name(used, named):
    """Spark ignores case; PostgreSQL and Delta's files do not."""
    with pytest.raises(InvalidJobError, match=f"/lake/orders has the columns {named}, .* rename one of them"):
        described(id="long", ID="long", name="string").require_distinct(used)


def test_columns_that_differ_in_case_may_stand_beside_the_used_ones():
    described(id="long", ID="long", name="string").require_distinct(["name"])


def test_a_column_that_comes_later_and_differs_in_case_from_a_used_one_is_refused():
    with pytest.raises(UpstreamSchemaChangedError, match="there is a column ID beside id, and Spark ignores case"):
        described(id="long", ID="long", name="string").require_as_created(created())

"""Where a deployment lets jobs read and write."""

from __future__ import annotations

import json

import pytest

from airflow_backfill_provider.core.errors import ConnectionNotAllowedError, LocationNotAllowedError
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.lake.store.allowed_roots import CONNECTIONS_VARIABLE, ROOTS_VARIABLE, require_restricted
from tests.several import shape_of_several, star


def open_job(upstream="/lake/orders", view="/lake/views/paid", state=""):
    return Backfill(
        BackfillJob(
            name="paid",
            upstream={"path": upstream, "key": ["id"]},
            materialized_view=view,
            query="SELECT id FROM upstream",
            state=state,
        )
    )


@pytest.fixture
def allow(monkeypatch):
    def allow(*roots):
        monkeypatch.setenv(ROOTS_VARIABLE, json.dumps(roots))

    return allow


def test_without_the_variable_a_job_may_lie_anywhere(monkeypatch):
    monkeypatch.delenv(ROOTS_VARIABLE, raising=False)
    open_job("/anywhere/orders", "s3a://bucket/view")


def test_under_the_allowed_roots_everything_opens(allow):
    allow("/lake/", "s3a://bucket/lake")
    open_job()
    open_job(view="s3a://bucket/lake/paid", state="/lake/state/paid")


@pytest.mark.parametrize(
    ("place", "field"),
    [
        ({"upstream": "/lakes/orders"}, "upstream.path"),
        ({"upstream": "/lake/../etc/orders"}, "upstream.path"),
        ({"view": "/elsewhere/paid"}, "materialized_view"),
        ({"view": "s3a://bucket/lakes/paid", "state": "/lake/state"}, "materialized_view"),
        ({"view": "s3a://other/lake/paid", "state": "/lake/state"}, "materialized_view"),
        ({"state": "/tmp/state"}, "state"),
    ],
)
def test_outside_of_the_roots_the_field_is_named_before_anything_is_read(allow, place, field):
    allow("/lake", "s3a://bucket/lake")
    with pytest.raises(LocationNotAllowedError, match=f"^{field}: .* outside the folders"):
        open_job(**place)


def test_a_link_does_not_lead_out(allow, tmp_path):
    (tmp_path / "lake").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "lake" / "link").symlink_to(tmp_path / "elsewhere")
    allow(str(tmp_path / "lake"))
    with pytest.raises(LocationNotAllowedError, match="upstream.path"):
        open_job(upstream=str(tmp_path / "lake" / "link" / "orders"), view=str(tmp_path / "lake" / "view"))


def test_a_root_may_be_a_link(allow, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "lake").symlink_to(tmp_path / "real")
    allow(str(tmp_path / "lake"))
    open_job(upstream=str(tmp_path / "real" / "orders"), view=str(tmp_path / "lake" / "view"))


def test_control_tables_outside_of_the_roots_are_not_read(allow):
    allow("/lake")
    with pytest.raises(LocationNotAllowedError, match="^state: "):
        Backfill.at("/elsewhere/state")


@pytest.mark.parametrize("text", ["/lake", "[]", "[1]", '{"a": 1}', '["lake"]', "["])
def test_an_unreadable_variable_allows_nothing(monkeypatch, text):
    monkeypatch.setenv(ROOTS_VARIABLE, text)
    with pytest.raises(LocationNotAllowedError, match="is not a list of folders"):
        open_job()


# --- files and connections that a definition names ------------------------------------------------

AVRO = {"format": "avro", "schema_file": "/lake/orders.avsc"}
PROTOBUF = {"format": "protobuf", "descriptor_file": "/lake/orders.desc", "message": "shop.Order"}


def open_over(upstream):
    fields = {"name": "paid", "materialized_view": "/lake/views/paid", "query": "SELECT 1 AS one FROM upstream"}
    return Backfill(BackfillJob(**fields, upstream=upstream))


def topic(**formats):
    return {"kafka": {"connection": "events", "topic": "orders", **formats}}


@pytest.mark.parametrize("field", ["value", "record_key"])
@pytest.mark.parametrize(("definition", "name"), [(AVRO, "schema_file"), (PROTOBUF, "descriptor_file")])
@pytest.mark.parametrize(
    "place", ["/etc/passwd", "/lake/../etc/passwd", "passwd", "/lake/link/orders", "/lake/link/../x"]
)
def test_files_of_schemas_lie_under_the_roots_too(allow, tmp_path, field, definition, name, place):
    lake = tmp_path / "lake"
    lake.mkdir()
    (lake / "link").symlink_to(tmp_path)
    allow(str(lake), "/lake/views", "/lake/_backfill")
    place = place.replace("/lake", str(lake))

    with pytest.raises(LocationNotAllowedError, match=rf"^upstream.kafka.{field}.{name}: .* outside the folders"):
        open_over(topic(**{field: definition | {name: place}}))


def test_a_text_that_is_no_path_is_under_no_root(allow):
    allow("/lake")
    with pytest.raises(LocationNotAllowedError, match=r"^upstream.kafka.value.schema_file: its value is no path"):
        open_over(topic(value=AVRO | {"schema_file": "/lake/\0"}))


def test_a_file_of_a_schema_under_the_roots_is_allowed(allow):
    allow("/lake")
    open_over(topic(value=AVRO, record_key=PROTOBUF))


@pytest.mark.parametrize(
    ("upstream", "named"),
    [
        (topic(), "events"),
        (topic(value={"format": "avro", "registry": "schemas"}), "schemas"),
        (topic(record_key={"format": "avro", "registry": "schemas"}), "schemas"),
        (topic(value=PROTOBUF | {"registry": "schemas"}), "schemas"),
        ({"postgres": {"connection": "airflow_db", "table": "public.users", "key": ["id"]}}, "airflow_db"),
        (
            {
                "debezium": {
                    "path": "/lake/events",
                    "key": ["id"],
                    "snapshot": {"connection": "airflow_db", "table": "public.users"},
                }
            },
            "airflow_db",
        ),
    ],
)
def test_a_job_names_only_allowed_connections(monkeypatch, upstream, named):
    monkeypatch.delenv(CONNECTIONS_VARIABLE, raising=False)
    allowed = [name for name in open_over(upstream).job.upstream.connection_ids if name != named]
    assert named in open_over(upstream).job.upstream.connection_ids

    monkeypatch.setenv(CONNECTIONS_VARIABLE, json.dumps([*allowed, named.upper()]))
    with pytest.raises(ConnectionNotAllowedError, match=f"^upstream: the connection {named} is not one"):
        open_over(upstream)
    monkeypatch.setenv(CONNECTIONS_VARIABLE, json.dumps([*allowed, named]))
    open_over(upstream)


def test_a_job_without_connections_needs_none(monkeypatch):
    monkeypatch.setenv(CONNECTIONS_VARIABLE, "[]")
    open_job()


@pytest.mark.parametrize("text", ["shop_db", '"shop_db"', "[1]", "{}", "null"])
def test_an_invalid_list_of_connections_allows_none(monkeypatch, text):
    monkeypatch.setenv(CONNECTIONS_VARIABLE, text)
    with pytest.raises(ConnectionNotAllowedError, match="is not a list of connection ids"):
        open_over(topic())


def test_what_needs_a_restricted_deployment_is_refused_in_another_one(allow, monkeypatch):
    monkeypatch.delenv(ROOTS_VARIABLE, raising=False)
    with pytest.raises(LocationNotAllowedError, match="^a definition in the form is refused, .* set AIRFLOW_BACKF"):
        require_restricted("a definition in the form")
    allow("/lake")
    require_restricted("a definition in the form")


def test_every_upstream_must_lie_under_the_allowed_roots(allow):
    allow("/lake")
    with shape_of_several():
        Backfill(BackfillJob(**star()))
        outside = {"orders": {"path": "/lake/orders", "key": ["id"]}, "customers": {"path": "/other", "key": ["id"]}}
        with pytest.raises(LocationNotAllowedError, match="upstreams.customers.path: /other lies outside"):
            Backfill(BackfillJob(**star(upstreams=outside)))


def test_the_connection_of_every_upstream_must_be_allowed(monkeypatch):
    monkeypatch.setenv(CONNECTIONS_VARIABLE, json.dumps(["shop"]))
    database = {"postgres": {"connection": "payroll", "table": "people", "key": ["id"]}}
    with shape_of_several(), pytest.raises(ConnectionNotAllowedError, match="payroll"):
        Backfill(BackfillJob(**star(upstreams={"orders": {"path": "/lake/o", "key": ["id"]}, "customers": database})))

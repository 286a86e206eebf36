"""A table in PostgreSQL as a job's upstream: its definition, and the defaults that depend on the job."""

from __future__ import annotations

import json
import re

import pytest
import yaml
from pydantic import ValidationError

from airflow_backfill_provider.core import kinds
from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.sources.postgres import Postgres
from airflow_backfill_provider.sources.postgres.definition import PostgresUpstream
from airflow_backfill_provider.sources.shared import postgresql
from tests.builders import job_of

STATE = "/lake/_backfill/paid_orders"


def upstream(**changes):
    return {"postgres": {"connection": "shop", "table": "shop.orders", "key": ["id"], **changes}}


def job(name="paid_orders", **changes):
    return job_of(name=name, upstream=upstream(**changes))


def refusal(**changes):
    with pytest.raises(InvalidJobError) as refused:
        job(**changes)
    return str(refused.value)


def test_a_minimal_upstream_gets_the_documented_defaults():
    found = job().upstream
    assert found == PostgresUpstream(
        connection="shop",
        table="shop.orders",
        slot="airflow_backfill_paid_orders",
        publication="airflow_backfill_paid_orders",
        change_log=f"{STATE}/change_log",
        as_text=(),
        key=("id",),
        distribution_key=("id",),
    )
    assert found.location == "shop: shop.orders"


def test_without_a_job_there_are_no_defaults():
    alone = PostgresUpstream(connection="shop", table="shop.orders", key=("id",))
    assert (alone.slot, alone.publication, alone.change_log, alone.folders) == ("", "", "", {})
    assert alone.for_job("a", "/s").for_job("b", "/t") == alone.for_job("a", "/s")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"slot": "mine"}, ("mine", "mine", f"{STATE}/change_log")),
        ({"publication": "All Tables"}, ("airflow_backfill_paid_orders", "All Tables", f"{STATE}/change_log")),
        ({"slot": "mine", "publication": "ours"}, ("mine", "ours", f"{STATE}/change_log")),
        (
            {"change_log": "file:///lake//log/"},
            ("airflow_backfill_paid_orders", "airflow_backfill_paid_orders", "/lake/log"),
        ),
        ({"slot": "x" * 63, "change_log": "s3://b/log"}, ("x" * 63, "x" * 63, "s3://b/log")),
    ],
)
def test_what_a_job_names_is_kept(change, expected):
    found = job(**change).upstream
    assert (found.slot, found.publication, found.change_log) == expected


def test_jobs_share_polls_of_a_table_only_if_they_share_its_slot():
    assert job("a").upstream.location == job("b").upstream.location
    assert job("a").upstream.watched != job("b").upstream.watched
    assert job("a", slot="ours").upstream.watched == job("b", slot="ours").upstream.watched


def test_the_default_change_log_follows_the_control_tables():
    assert job_of(upstream=upstream(), state="/elsewhere/s").upstream.change_log == "/elsewhere/s/change_log"


def test_the_slot_of_a_job_with_a_long_name_is_short_enough_and_the_jobs_own():
    names = ["a" * 100, "a" * 99 + "b", "a" * 99, "a" * 48, "a" * 47, "a" * 46]
    slots = [job(name).upstream.slot for name in names]
    assert {len(slot) for slot in slots} == {63}
    assert slots[-1] == "airflow_backfill_" + "a" * 46, "the longest name that needs no digest"
    assert len(set(slots)) == len(names)
    assert all(re.fullmatch("airflow_backfill_a+(_[0-9a-f]{8})?", slot) for slot in slots)
    assert slots == [job(name).upstream.slot for name in names], "a slot of a job has always the same name"


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"slot": "mine", "publication": 'It\'s "mine"', "change_log": "s3://b/log", "as_text": ["a b", 'q"']},
        {"key": ["a", {"column": "b", "descending": True}], "distribution_key": ["b"]},
        {"table": 'shop."Bob""s orders"', "connection": "my shop"},
    ],
)
def test_a_job_is_read_back_as_it_was_written(change):
    made = job(**change)
    written = made.model_dump(mode="json")
    assert BackfillJob(**written) == made
    assert BackfillJob(**json.loads(json.dumps(written))) == made
    assert BackfillJob(**json.loads(made.model_dump_json())) == made
    assert BackfillJob(**made.model_dump()) == made
    assert list(written["upstream"]) == ["postgres"]
    assert BackfillJob(**written).definition() == made.definition()


def test_a_job_is_read_from_yaml(tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(job(slot="mine").model_dump(mode="json")), encoding="utf-8")
    assert BackfillJob.from_yaml(file) == job(slot="mine")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"colour": "red"},
            "upstream.postgres.colour: unknown field; allowed are connection, table, slot, publication, ",
        ),
        (
            {"path": "/lake/orders"},
            "upstream.postgres.path: unknown field; allowed are connection, table, slot, publication, ",
        ),
        ({"password": "hunter2"}, "upstream.postgres.password: unknown field; allowed are connection, table, "),
        ({"connection": ""}, "upstream.postgres.connection: String should have at least 1 character"),
        ({"table": ""}, "upstream.postgres.table: String should have at least 1 character"),
        ({"table": 7}, "upstream.postgres.table: Input should be a valid string"),
        ({"slot": "Mine"}, "upstream.postgres.slot: String should match pattern"),
        ({"slot": "a-b"}, "upstream.postgres.slot: String should match pattern"),
        ({"slot": "a\n"}, "upstream.postgres.slot: String should match pattern"),
        ({"slot": "x" * 64}, "upstream.postgres.slot: String should have at most 63 characters"),
        ({"slot": None}, "upstream.postgres.slot: Input should be a valid string"),
        ({"change_log": "log"}, "upstream.postgres.change_log: "),
        ({"change_log": "s3://bucket"}, "upstream.postgres.change_log: "),
        ({"as_text": "a"}, "upstream.postgres.as_text: must be a list"),
        ({"as_text": [1]}, "upstream.postgres.as_text.0: Input should be a valid string"),
        ({"key": []}, "upstream.postgres.key: is required, with at least 1 item"),
        ({"key": ["id", "id"]}, "key names id more than once"),
    ],
    ids=str,
)
def test_a_wrong_field_is_named_with_what_is_allowed(change, said):
    message = refusal(**change)
    assert said in message
    assert "hunter2" not in message


@pytest.mark.parametrize("field", ["connection", "table", "key"])
def test_a_required_field_that_is_missing_is_named(field):
    fields = upstream()["postgres"]
    del fields[field]
    with pytest.raises(InvalidJobError, match=rf"^upstream\.postgres\.{field}: is required"):
        job_of(upstream={"postgres": fields})


@pytest.mark.parametrize(
    ("folder", "said"),
    [
        (f"{STATE}/log", f"upstream.postgres.change_log ({STATE}/log) lies in state ({STATE})"),
        (f"{STATE}/change_log/x", f"upstream.postgres.change_log ({STATE}/change_log/x) lies in state ({STATE})"),
        (STATE, f"state ({STATE}) lies in upstream.postgres.change_log ({STATE})"),
        ("/lake/_backfill", f"state ({STATE}) lies in upstream.postgres.change_log (/lake/_backfill)"),
        ("/lake/paid_orders", "materialized_view (/lake/paid_orders) lies in upstream.postgres.change_log"),
        ("/lake/x/../paid_orders/", "materialized_view (/lake/paid_orders) lies in upstream.postgres.change_log"),
        ("/lake/paid_orders/log", "upstream.postgres.change_log (/lake/paid_orders/log) lies in materialized_view"),
        ("/lake", "materialized_view (/lake/paid_orders) lies in upstream.postgres.change_log (/lake)"),
    ],
)
def test_a_change_log_in_another_folder_of_the_job_is_refused(folder, said):
    message = refusal(change_log=folder)
    assert said in message
    assert "give each its own folder" in message


def test_the_default_change_log_may_be_named():
    assert job(change_log=f"{STATE}/change_log") == job()


def test_jobs_may_share_a_slot_and_a_change_log():
    one, two = (job(name, slot="ours", change_log="/lake/log").upstream for name in ("one", "two"))
    assert one == two
    assert one.folders == {"upstream.postgres.change_log": "/lake/log"}


def test_a_definition_cannot_be_changed_and_has_no_secrets():
    found = job().upstream
    with pytest.raises(ValidationError):
        found.slot = "other"
    assert set(type(found).model_fields) == {
        "connection",
        "table",
        "slot",
        "publication",
        "change_log",
        "as_text",
        "key",
        "distribution_key",
    }


def test_secrets_of_the_connection_are_nowhere_in_a_job(monkeypatch):
    """The job names the connection, which is looked up when it is used."""
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", "postgres://ann:hunter2@db/shop")
    made = job()
    for text in (made.model_dump_json(), repr(made), str(made.upstream), made.upstream.location):
        assert "hunter2" not in text
        assert "shop" in text


def test_the_kind_opens_its_own_definitions_without_asking_the_database():
    kind = kinds.SOURCES.named("postgres")
    source = kind.open(job().upstream)
    assert (source.location, source.slot.name, source.slot.publication, source.log.location) == (
        "shop: shop.orders",
        "airflow_backfill_paid_orders",
        "airflow_backfill_paid_orders",
        f"{STATE}/change_log",
    )


def test_without_its_driver_the_extra_to_install_is_named(monkeypatch):
    monkeypatch.setattr(postgresql, "find_spec", lambda name: None)
    with pytest.raises(InvalidJobError, match=r"install airflow-backfill-provider\[postgres\]"):
        Postgres().open(job().upstream)

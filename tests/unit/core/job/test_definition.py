"""A job's definition: what is allowed, and errors that name the wrong field and what is allowed."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from airflow_backfill_provider.core.errors import BackfillError, InvalidJobError
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.job.restriction import Restriction
from airflow_backfill_provider.core.job.upstream import KeyColumn
from airflow_backfill_provider.sources.delta.definition import DeltaUpstream
from tests.builders import job_fields, job_of
from tests.unit.core.job_refusals import refusal, upstream

HOSTILE_NAMES = ["", "Paid", "a b", "a-b", "a/b", "../a", "a\n", "ä", "a.b", "a'b", "a;--", "x%00", "\x00"]


def test_a_minimal_job_gets_the_documented_defaults():
    fields = job_fields()
    del fields["vnode_count"]
    job = BackfillJob(**fields)
    assert job.strategy == "auto"
    assert job.vnode_count == 256
    assert job.rate_limit is None
    assert job.state == "/lake/_backfill/paid_orders"
    assert job.upstream.distribution_key == ("id",)
    assert job.table_properties == {}
    assert (job.parallelism, job.keep_arrangement) == (1, False)
    assert job.restrict_to == Restriction()
    assert job.vnodes == frozenset(range(256))


@pytest.mark.parametrize(
    "change",
    [
        {"name": "a"},
        {"name": "_0"},
        {"name": "x" * 100},
        {"vnode_count": 1},
        {"vnode_count": 32_768},
        {"rate_limit": None},
        {"rate_limit": 0},
        {"rate_limit": 1},
        {"rate_limit": 2**63 - 1},
        {"strategy": "auto"},
        {"strategy": "no_shuffle"},
        {"strategy": "arrangement"},
        {"parallelism": 4, "strategy": "arrangement"},
        {"parallelism": 2},
        {"parallelism": 1, "strategy": "no_shuffle"},
        {"visibility": "every_epoch"},
        {"visibility": "on_finish"},
        {"visibility": "on_finish", "upstream": upstream(key=["a", "b"], distribution_key=["b"])},
        {"visibility": "on_finish", "strategy": "no_shuffle", "upstream": upstream(distribution_key=["customer"])},
        {"keep_arrangement": True},
        {"restrict_to": {}},
        {"restrict_to": {"vnodes": [0, "2-3"]}},
        {"restrict_to": {"vnodes": ["0-3"], "keys": {"after": ["5"], "up_to": ["9"]}}},
        {"restrict_to": {"keys": {"up_to": [None]}}},
        {"state": "/elsewhere/state"},
        {"state": ""},
        {"table_properties": {"delta.appendOnly": "false", "owner": "o'brien"}},
        {"upstream": upstream(key=["a", {"column": "b", "descending": True}, {"column": "c"}])},
        {"upstream": upstream(key=["a", "b"], distribution_key=["b"])},
        {"upstream": upstream(distribution_key=["customer"])},
        {"upstream": upstream(key=["order id", "a.b", 'q"', "it's", "`", "ünï", "select"])},
        {"upstream": DeltaUpstream(path="/lake/orders", key=("id",))},
        {"upstream": upstream(path="s3://bucket/orders")},
    ],
    ids=str,
)
def test_what_is_allowed(change):
    job = job_of(**change)
    assert BackfillJob(**job.model_dump(mode="json")) == job


@pytest.mark.parametrize(
    ("change", "field", "allowed"),
    [
        *[({"name": name}, "name", "lower-case letters, digits and '_'") for name in HOSTILE_NAMES],
        ({"name": "x" * 101}, "name", "at most 100"),
        ({"name": 7}, "name", "valid string"),
        ({"name": None}, "name", "valid string"),
        ({"vnode_count": 0}, "vnode_count", "greater than or equal to 1"),
        ({"vnode_count": 32_769}, "vnode_count", "less than or equal to 32768"),
        ({"vnode_count": "256"}, "vnode_count", "valid integer"),
        ({"vnode_count": 256.0}, "vnode_count", "valid integer"),
        ({"vnode_count": True}, "vnode_count", "valid integer"),
        ({"vnode_count": None}, "vnode_count", "valid integer"),
        ({"rate_limit": -1}, "rate_limit", "greater than or equal to 0"),
        ({"rate_limit": 2**63}, "rate_limit", "less than or equal to"),
        ({"rate_limit": "unlimited"}, "rate_limit", "valid integer"),
        ({"rate_limit": "1e6"}, "rate_limit", "valid integer"),
        ({"rate_limit": 0.5}, "rate_limit", "valid integer"),
        ({"rate_limit": False}, "rate_limit", "valid integer"),
        ({"strategy": "fast"}, "strategy", "'auto', 'snapshot', 'no_shuffle', 'arrangement', 'cdc' or 'source'"),
        ({"strategy": "AUTO"}, "strategy", "'auto', 'snapshot', 'no_shuffle', 'arrangement', 'cdc' or 'source'"),
        ({"strategy": None}, "strategy", "'auto', 'snapshot', 'no_shuffle', 'arrangement', 'cdc' or 'source'"),
        ({"parallelism": 0}, "parallelism", "greater than or equal to 1"),
        ({"parallelism": "2"}, "parallelism", "valid integer"),
        ({"parallelism": True}, "parallelism", "valid integer"),
        ({"parallelism": None}, "parallelism", "valid integer"),
        ({"keep_arrangement": "yes"}, "keep_arrangement", "valid boolean"),
        ({"visibility": "never"}, "visibility", "'every_epoch' or 'on_finish'"),
        ({"restrict_to": ["0-3"]}, "restrict_to", "valid dictionary"),
        ({"restrict_to": {"rows": 5}}, "restrict_to.rows", "unknown field; allowed are vnodes, keys"),
        ({"restrict_to": {"vnodes": "0-3"}}, "restrict_to.vnodes", "must be a list"),
        ({"restrict_to": {"keys": {"from": [1]}}}, "restrict_to.keys.from", "unknown field; allowed are after, up_to"),
        ({"query": None}, "query", "valid string"),
        ({"query": "SELECT explode(tags) FROM upstream"}, "query", "must be row-level"),
        ({"materialized_view": 1}, "materialized_view", "valid string"),
        ({"materialized_view": "paid_orders"}, "materialized_view", "absolute path"),
        ({"state": "state"}, "state", "absolute path"),
        ({"state": None}, "state", "valid string"),
        ({"table_properties": {"a": 1}}, "table_properties.a", "valid string"),
        ({"table_properties": ["a"]}, "table_properties", "valid dictionary"),
        ({"table_properties": {"Backfill.job": "other"}}, "table_properties", "Backfill.job"),
        ({"table_properties": {"delta.appendOnly": "TRUE"}}, "table_properties", "append-only view"),
        ({"table_properties": {"DELTA.appendonly": "true"}}, "table_properties", "append-only view"),
        (
            {"table_properties": {"delta.setTransactionRetentionDuration": "interval 7 days"}},
            "table_properties",
            "a retry writes the same rows twice",
        ),
        ({"upstream": "/lake/orders"}, "upstream", "valid dictionary"),
        ({"upstream": upstream(path="lake/orders")}, "upstream.path", "absolute path"),
        ({"upstream": upstream(path=7)}, "upstream.path", "valid string"),
        ({"upstream": {"key": ["id"]}}, "upstream.path", "is required"),
        ({"upstream": {"path": "/lake/orders"}}, "upstream.key", "is required"),
        ({"upstream": upstream(key=[])}, "upstream.key", "at least 1 item"),
        ({"upstream": upstream(key="id")}, "upstream.key", "must be a list"),
        (
            {"upstream": upstream(key=[1])},
            "upstream.key.0",
            "name of a column, or a mapping with its name; in YAML, this word is a number: quote it",
        ),
        ({"upstream": upstream(key=[""])}, "upstream.key.0.column", "at least 1 character"),
        ({"upstream": upstream(key=[{"descending": True}])}, "upstream.key.0.column", "is required"),
        (
            {"upstream": upstream(key=[{"column": "id", "descending": "yes"}])},
            "upstream.key.0.descending",
            "valid boolean",
        ),
        ({"upstream": upstream(distribution_key="id")}, "upstream.distribution_key", "must be a list"),
        ({"upstream": upstream(distribution_key=[1])}, "upstream.distribution_key.0", "valid string"),
    ],
    ids=str,
)
def test_a_wrong_field_is_named_with_what_is_allowed(change, field, allowed):
    """I6: the job is refused before anything is written."""
    message = refusal(**change)
    assert message.startswith(f"{field}: ")
    assert allowed in message
    assert "\n" not in message


@pytest.mark.parametrize("field", ["name", "upstream", "materialized_view", "query"])
def test_a_required_field_that_is_missing_is_named(field):
    fields = job_fields()
    del fields[field]
    with pytest.raises(InvalidJobError, match=f"^{field}: is required$"):
        BackfillJob(**fields)


@pytest.mark.parametrize(
    ("change", "field", "allowed"),
    [
        ({"rate_limits": 5}, "rate_limits", BackfillJob.field_names()),
        ({"upstream": upstream(keys=["id"])}, "upstream.keys", DeltaUpstream.field_names()),
        (
            {"upstream": upstream(key=[{"column": "id", "desc": True}])},
            "upstream.key.0.desc",
            list(KeyColumn.model_fields),
        ),
    ],
)
def test_an_unknown_field_is_refused_with_the_known_ones(change, field, allowed):
    assert f"{field}: unknown field; allowed are {', '.join(allowed)}" in refusal(**change)


def test_every_wrong_field_is_named_at_once():
    message = refusal(name="Ä", vnode_count=0, rate_limit=-1, colour="red")
    for field in ("name: ", "vnode_count: ", "rate_limit: ", "colour: "):
        assert field in message


@pytest.mark.parametrize(
    ("fields", "repeated"),
    [
        ({"key": ["id", "name", "id"]}, "key names id more than once"),
        ({"key": ["id", {"column": "id", "descending": True}]}, "key names id more than once"),
        ({"distribution_key": ["a", "b", "a"]}, "distribution_key names a more than once"),
    ],
)
def test_a_column_named_twice_is_refused(fields, repeated):
    assert repeated in refusal(upstream=upstream(**fields))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"materialized_view": "/lake/orders"}, "materialized_view (/lake/orders) lies in upstream.path"),
        ({"materialized_view": "/lake/orders/"}, "materialized_view (/lake/orders) lies in upstream.path"),
        ({"materialized_view": "/lake/x/../orders"}, "materialized_view (/lake/orders) lies in upstream.path"),
        ({"materialized_view": "file:///lake//orders"}, "materialized_view (/lake/orders) lies in upstream.path"),
        ({"materialized_view": "/lake/orders/view"}, "materialized_view (/lake/orders/view) lies in upstream.path"),
        ({"materialized_view": "/lake"}, "upstream.path (/lake/orders) lies in materialized_view"),
        ({"state": "/lake/orders/state"}, "state (/lake/orders/state) lies in upstream.path"),
        ({"state": "/lake/paid_orders"}, "state (/lake/paid_orders) lies in materialized_view"),
        ({"state": "/lake"}, "lies in state (/lake)"),
    ],
)
def test_folders_inside_of_each_other_are_refused(change, said):
    message = refusal(**change)
    assert said in message
    assert "its own folder" in message


def test_folders_with_a_common_prefix_are_different():
    job = job_of(materialized_view="/lake/orders_paid", state="/lake/orders_paid_state")
    assert job.upstream.path == "/lake/orders"


def test_the_default_state_of_a_hostile_view_stays_beside_the_view():
    """Only the job's name goes into the path, and it has no separators."""
    job = job_of(materialized_view="/lake/läke o'brien `x\" #1/../view")
    assert job.state == "/lake/_backfill/paid_orders"


def test_a_definition_cannot_be_changed_afterwards():
    job = job_of()
    with pytest.raises(ValidationError):
        job.rate_limit = 5


def test_the_definition_leaves_out_the_first_rate_limit_and_is_json():
    job = job_of(rate_limit=5)
    assert job.definition() == job_of(rate_limit=9).definition()
    assert "rate_limit" not in job.definition()
    assert json.loads(json.dumps(job.definition())) == job.definition()


@pytest.mark.parametrize(
    "change",
    [
        {"query": "SELECT id FROM upstream"},
        {"vnode_count": 5},
        {"state": "/other"},
        {"strategy": "no_shuffle"},
        {"upstream": upstream(key=[{"column": "id", "descending": True}])},
        {"upstream": upstream(distribution_key=["customer"])},
        {"table_properties": {"a": "b"}},
    ],
    ids=str,
)
def test_everything_else_makes_another_definition(change):
    assert job_of(**change).definition() != job_of().definition()


def test_spellings_of_one_path_are_one_definition():
    spelled = job_of(
        upstream=upstream(path="file:///lake/./orders/", key=[{"column": "id"}], distribution_key=["id"]),
        materialized_view="/lake//paid_orders/",
    )
    assert spelled.definition() == job_of().definition()


def test_an_invalid_job_is_a_value_error_that_is_not_retryable():
    assert issubclass(InvalidJobError, ValueError)
    assert issubclass(InvalidJobError, BackfillError)
    assert not InvalidJobError.retryable


def test_parallelism_is_at_most_the_number_of_vnodes():
    assert job_of(parallelism=4).parallelism == 4
    message = refusal(parallelism=5)
    assert message.endswith("parallelism: 5 is not allowed; allowed are 1 to 4, the job's vnode_count")


def test_changes_cannot_wait_while_rows_move_between_vnodes():
    moving = upstream(distribution_key=["customer", "id"])
    message = refusal(strategy="arrangement", visibility="on_finish", upstream=moving)
    assert "a change of customer can move a row to another vnode" in message


def test_task_runs_cannot_share_one_position():
    """The error about the contradiction says what to do."""
    message = refusal(strategy="no_shuffle", parallelism=2)
    assert "parallelism: 2 task runs cannot share the one position" in message
    assert "use strategy arrangement, or auto" in message


def test_rate_limit_and_parallelism_are_only_the_first_settings():
    """Both may be edited without making another job. Fields that decide about rows may not."""
    definition = job_of().definition()
    assert job_of(rate_limit=5, parallelism=3).definition() == definition
    for change in (
        {"keep_arrangement": True},
        {"restrict_to": {"vnodes": [0]}},
        {"restrict_to": {"keys": {"after": [1]}}},
    ):
        assert job_of(**change).definition() != definition


@pytest.mark.parametrize("upstream", [{"path": "/lake/orders"}, {"path": "/lake/orders", "key": []}])
def test_an_upstream_without_a_key_is_refused_saying_why_and_what_to_do(upstream):
    """
    Streaming engines have upstreams without a key. Here a change finds its row by the key.

    See docs/concepts/rules.md#upstreams-without-rows-and-of-one-row.
    """
    with pytest.raises(
        InvalidJobError, match=r"^upstream\.key: is required, .* without a key.* give it a unique column"
    ):
        job_of(upstream=upstream)

"""What a connection may contain, and where control tables then lie."""

from __future__ import annotations

import json

import pytest
from airflow.sdk._shared.secrets_masker import redact

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.hooks.backfill import BackfillHook, InvalidConnectionError, load_job
from tests.unit.stand_in import Lake


def test_without_a_connection_control_tables_lie_beside_the_view(orders: Lake):
    backfill = BackfillHook().open(orders.definition)

    assert backfill.job.state == str(orders.folder / "_backfill" / "small_orders")
    assert backfill.storage_options == {}


def test_a_named_connection_that_is_missing_is_an_error(orders: Lake):
    with pytest.raises(InvalidConnectionError, match="there is no connection nowhere; create it with type"):
        BackfillHook("nowhere").open(orders.definition)


def test_a_connection_of_another_type_is_an_error(orders: Lake, connection):
    with pytest.raises(InvalidConnectionError, match="connection lake has type aws; change it to airflow_backfill"):
        BackfillHook(connection(conn_type="aws")).open(orders.definition)


def test_the_state_root_holds_the_control_tables_of_jobs_that_name_no_state(orders: Lake, connection):
    hook = BackfillHook(connection(extra=json.dumps({"state_root": "s3://bucket/backfill/"})))

    placed = hook.open(orders.definition).job
    assert placed.state == "s3://bucket/backfill/small_orders"
    assert placed.upstream.distribution_key == ("order_id",)
    assert hook.open({**orders.definition, "state": "/lake/state"}).job.state == "/lake/state"


def test_storage_options_may_be_an_object_or_its_text(connection):
    options = {
        "AWS_REGION": "eu-central-1",
        "bucket.raw.AWS_REGION": "us-east-1",
        "AZURE_STORAGE_ACCOUNT_NAME": "lake",
        "GOOGLE_SERVICE_ACCOUNT": "/key",
    }

    for written in (options, json.dumps(options)):
        hook = BackfillHook(connection(extra=json.dumps({"storage_options": written})))
        assert hook.connection.storage_options == options


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (
            {"root": "/x", "zone": 1},
            "unknown extra root, zone; allowed are state_root, storage_options, secret_storage_options",
        ),
        ({"storage_options": {"aws_region": "x", "HOST": "y"}}, "unknown option HOST, aws_region; allowed are"),
        ({"storage_options": {"bucket.raw.HOST": "y"}}, "storage option bucket.raw.HOST: an option of one bucket is"),
        ({"storage_options": {"bucket.raw.AWS_region": "y"}}, "unknown option bucket.raw.AWS_region; allowed are"),
        ({"storage_options": {"AWS_ALLOW_HTTP": True}}, 'AWS_ALLOW_HTTP must be text; write "true"'),
        ({"storage_options": "{AWS"}, "storage_options is not valid JSON"),
        ({"storage_options": ["AWS_REGION"]}, "must be a JSON object"),
        ({"state_root": 7}, "state_root must be a path or a URI"),
    ],
)
def test_an_unknown_field_of_a_connection_is_refused(connection, extra, message):
    with pytest.raises(InvalidConnectionError, match=message):
        _ = BackfillHook(connection(extra=json.dumps(extra))).connection


def test_a_relative_state_root_is_refused(connection):
    with pytest.raises(InvalidJobError, match="is relative"):
        _ = BackfillHook(connection(extra=json.dumps({"state_root": "state"}))).connection


def test_secrets_are_masked_and_never_in_an_error_or_a_representation(connection, capfd):
    secret = {"AWS_SECRET_ACCESS_KEY": "very-secret-1", "AWS_SESSION_TOKEN": "very-secret-2"}
    also_wrong = {"storage_options": {**secret, "aws_access_key_id": "very-secret-3"}}

    with pytest.raises(InvalidConnectionError) as error:
        _ = BackfillHook(connection(extra=json.dumps(also_wrong))).connection
    good = BackfillHook(connection(extra=json.dumps({"storage_options": secret}))).connection

    assert "very-secret" not in str(error.value)
    assert "very-secret" not in repr(good)
    assert "very-secret" not in "".join(capfd.readouterr())
    assert redact("very-secret-1 very-secret-2 very-secret-3") == "*** *** ***"


def test_invalid_text_that_may_hold_a_secret_is_not_repeated(connection):
    with pytest.raises(InvalidConnectionError) as error:
        _ = BackfillHook(connection(extra='{"storage_options": "very-secret"}')).connection

    assert "very-secret" not in str(error.value)
    assert error.value.__cause__ is None


def test_testing_a_connection_says_where_control_tables_lie(connection, tmp_path):
    assert BackfillHook().test_connection() == (
        True,
        "control tables lie beside their materialized views; without a state root there is nothing to test",
    )
    good = BackfillHook(connection(extra=json.dumps({"state_root": str(tmp_path)})))
    assert good.test_connection() == (
        True,
        f"control tables lie under {tmp_path}; it can be read and written to, and has 0 folders",
    )


def test_testing_a_connection_says_what_is_wrong(connection, tmp_path):
    (tmp_path / "file").touch()
    bad = BackfillHook(connection(extra=json.dumps({"state_root": f"{tmp_path}/file"})))
    assert bad.test_connection() == (False, f"{tmp_path}/file is a file; give a folder")
    worse = BackfillHook(connection(extra=json.dumps({"stat_root": str(tmp_path)})))
    assert worse.test_connection() == (
        False,
        "connection lake: unknown extra stat_root; allowed are state_root, storage_options, secret_storage_options",
    )


def test_the_result_of_a_connection_test_has_no_secret(connection, monkeypatch):
    """An object store may repeat the request."""

    def probe(root, options):
        raise RuntimeError(f"403 for {options['AZURE_STORAGE_SAS_TOKEN']}, of {options['AZURE_STORAGE_ACCOUNT_NAME']}")

    monkeypatch.setattr("airflow_backfill_provider.state.probe.probe_state_root", probe)
    options = {"AZURE_STORAGE_ACCOUNT_NAME": "lake", "AZURE_STORAGE_SAS_TOKEN": "sv=1&sig=very-secret"}
    extra = {"state_root": "abfss://c@lake.dfs.core.windows.net/backfill", "storage_options": options}
    hook = BackfillHook(connection(extra=json.dumps(extra)))
    assert hook.test_connection() == (False, "403 for ***, of lake")


def test_secret_storage_options_are_options_like_the_others(connection):
    extra = {
        "storage_options": {"AWS_REGION": "eu-central-1"},
        "secret_storage_options": json.dumps({"AWS_SECRET_ACCESS_KEY": "very-secret-4"}),
    }
    options = BackfillHook(connection(extra=json.dumps(extra))).connection.storage_options
    assert options == {"AWS_REGION": "eu-central-1", "AWS_SECRET_ACCESS_KEY": "very-secret-4"}
    assert redact("very-secret-4") == "***"


def test_an_option_that_is_given_twice_is_refused(connection):
    extra = {name: {"AWS_REGION": name} for name in ("storage_options", "secret_storage_options")}
    with pytest.raises(InvalidConnectionError, match="AWS_REGION is in storage_options and in"):
        _ = BackfillHook(connection(extra=json.dumps(extra))).connection


@pytest.mark.parametrize("extra", ["storage_options", "secret_storage_options"])
def test_unknown_options_are_named_with_their_field(connection, extra):
    with pytest.raises(InvalidConnectionError, match=f"connection lake: {extra}: unknown option HOST"):
        _ = BackfillHook(connection(extra=json.dumps({extra: {"HOST": "x"}}))).connection


def test_a_credential_that_spark_could_not_use_is_refused_at_once(connection):
    extra = {"storage_options": {"GOOGLE_SERVICE_ACCOUNT_KEY": "very-secret"}}
    with pytest.raises(InvalidConnectionError, match="GOOGLE_SERVICE_ACCOUNT_KEY has no counterpart") as caught:
        _ = BackfillHook(connection(extra=json.dumps(extra))).connection
    assert "very-secret" not in str(caught.value)


def test_a_job_file_that_is_wrong_is_named(tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text("name: x", encoding="utf-8")

    with pytest.raises(InvalidJobError, match=f"{file}: upstream: is required"):
        load_job(str(file))


def test_the_state_root_also_holds_those_of_a_view_that_is_only_a_name(orders: Lake, connection):
    named = {**orders.definition, "materialized_view": "prod.sales.small_orders"}
    hook = BackfillHook(connection(extra=json.dumps({"state_root": "/lake/backfill"})))
    assert hook.open(named).job.state == "/lake/backfill/small_orders"
    with pytest.raises(InvalidJobError, match="state: is required"):
        BackfillHook().open(named)

"""The connection's test, on an S3 that answers, refuses, or is not there."""

from __future__ import annotations

import tests.airflow_home  # noqa: F401  # isort: skip - before anything of Airflow

import json

import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_backfill_provider.hooks.backfill import BackfillHook
from airflow_backfill_provider.lake.log import exclusive_commits
from tests.integration.object_store.conftest import S3, SECRET

pytestmark = pytest.mark.slow


@pytest.fixture
def connect(monkeypatch, s3: S3):
    """Tests a connection to the bucket with some of its options changed."""

    def test(root: str = f"{s3.root}/backfill", **changes: str) -> tuple[bool, str]:
        extra = {"state_root": root, "storage_options": s3.options | changes}
        monkeypatch.setenv(
            "AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "airflow_backfill", "extra": json.dumps(extra)})
        )
        return BackfillHook("lake").test_connection()

    return test


def test_a_bucket_that_can_be_written_to_is_left_as_it_was(s3, connect):
    good, message = connect()
    assert good, message
    assert message.endswith("it can be read and written to, and has 0 folders")
    assert "<KeyCount>0</KeyCount>" in s3.listing()


def test_a_bucket_that_does_not_exist_is_named(connect):
    good, message = connect("s3a://nowhere/backfill")
    assert not good
    assert "NoSuchBucket" in message
    assert "s3a://nowhere/backfill cannot be reached" in message


def test_a_store_that_does_not_answer_does_not_let_the_form_wait(connect):
    good, message = connect(AWS_ENDPOINT_URL="http://127.0.0.1:1")
    assert not good
    assert "cannot be reached" in message
    assert SECRET not in message


def test_a_store_that_lets_a_second_writer_in_is_refused_for_control_tables(s3, connect, monkeypatch):
    def write_over_the_first(table, *args, **options):
        write_deltalake(DeltaTable(table.table_uri, storage_options=s3.options), *args, **options)

    monkeypatch.setattr(exclusive_commits, "write_deltalake", write_over_the_first)
    good, message = connect()
    assert not good
    assert "lets a second writer replace the first one's commit" in message
    assert "<KeyCount>0</KeyCount>" in s3.listing()

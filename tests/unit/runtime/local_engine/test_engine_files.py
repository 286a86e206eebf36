"""The files of the engine: who may read them, and what they say."""

from __future__ import annotations

from airflow_backfill_provider.core.remote import Remote
from airflow_backfill_provider.runtime.local_engine import engine_files
from airflow_backfill_provider.runtime.local_engine.engine_files import EngineRecord, running_engine, token_of
from airflow_backfill_provider.runtime.local_engine.server import stop_engine


def test_the_token_stays_so_that_a_connection_can_hold_it(spark_submit, port):
    spark_submit()
    start(port)
    token = token_of(Remote(host="127.0.0.1", port=port))
    stop_engine()
    start(port)

    assert token is not None
    assert token_of(Remote(host="localhost", port=port)) == token


def test_the_token_is_for_this_users_engine_only(spark_submit, port):
    spark_submit()
    start(port)

    assert token_of(Remote(host="localhost", port=port + 1)) is None
    assert token_of(Remote(host="spark.example", port=port)) is None
    stop_engine()
    assert token_of(Remote(host="localhost", port=port)) is None


def test_a_record_that_cannot_be_read_is_none(state_home):
    engine_files.make_folder()
    engine_files.record_file().write_text("{", encoding="utf-8")

    assert running_engine() is None


def test_an_engine_record_survives_writing(spark_submit, port):
    spark_submit()
    record, _ = start(port)

    assert EngineRecord.model_validate_json(record.model_dump_json()) == record

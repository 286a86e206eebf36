"""Starting and ending the engine, with a program instead of Spark's server."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_backfill_provider.applications.local_engine import engine_files, server
from airflow_backfill_provider.applications.local_engine.engine_files import running_engine, token_of
from airflow_backfill_provider.applications.local_engine.known_process import KnownProcess
from airflow_backfill_provider.applications.local_engine.server import EngineRunsError, start_engine, stop_engine
from airflow_backfill_provider.core.errors import BackfillError, SparkServerUnavailableError, SparkUnavailableError
from airflow_backfill_provider.core.remote import Remote

pytestmark = pytest.mark.slow  # starts processes


def start(port: int, conf: dict[str, str] | None = None, connect: Callable[[Remote], str] = lambda _: "4.2.0"):
    return start_engine(port=port, master="local[2]", conf=conf or {}, connect=connect)


def test_an_engine_is_started_found_and_ended(spark_submit, port):
    spark_submit()
    record, started = start(port)

    assert started
    assert running_engine() == record
    assert (str(record.remote), record.version, record.memory) == (f"sc://localhost:{port}", "4.2.0", "2g")
    assert record.process.is_alive()

    assert stop_engine() == record
    assert not record.process.is_alive()
    assert running_engine() is None
    assert stop_engine() is None


def test_a_second_start_finds_the_first(spark_submit, port):
    spark_submit()
    record, _ = start(port)

    assert start(port) == (record, False)
    with pytest.raises(
        EngineRunsError, match=rf"is already running at sc://localhost:{port}; use that one, or stop it"
    ):
        start(port + 1)


def test_the_server_listens_to_this_machine_only_and_wants_a_token(spark_submit, port):
    folder = spark_submit()
    seen: list[Remote] = []
    start(port, {"spark.x": "y"}, lambda remote: seen.append(remote) or "4.2.0")

    settings = engine_files.conf_file().read_text(encoding="utf-8").splitlines()
    token = json.loads((folder / "environment").read_text())["SPARK_CONNECT_AUTHENTICATE_TOKEN"]
    assert "spark.connect.grpc.binding.address=127.0.0.1" in settings
    assert "spark.master=local[2]" in settings
    assert "spark.x=y" in settings
    assert seen == [Remote(host="localhost", port=port, token=token)]


def test_secrets_are_on_no_command_line_and_in_no_file_that_others_can_read(spark_submit, port):
    folder = spark_submit()
    start(port, {"spark.hadoop.fs.s3a.secret.key": "very-secret"})

    token = engine_files.token_file().read_text().strip()
    assert len(token) >= 32
    assert not any(secret in (folder / "arguments").read_text() for secret in (token, "very-secret"))
    assert stat.S_IMODE(engine_files.folder().stat().st_mode) == 0o700
    for file in (
        engine_files.token_file(),
        engine_files.conf_file(),
        engine_files.log_file(),
        engine_files.record_file(),
        engine_files.output_file(),
    ):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


def test_the_server_inherits_nothing_of_airflows_own(spark_submit, port, monkeypatch):
    folder = spark_submit()
    for name in ("AIRFLOW__CORE__FERNET_KEY", "AIRFLOW_CONN_SHOP"):
        monkeypatch.setenv(name, "very-secret")
    start(port)
    assert "very-secret" not in (folder / "environment").read_text()


def test_a_stale_record_is_ignored_although_its_process_number_is_in_use(spark_submit, port):
    spark_submit()
    record, _ = start(port)
    os.killpg(record.process.pid, signal.SIGKILL)
    os.waitid(os.P_PID, record.process.pid, os.WEXITED | os.WNOWAIT)
    this = KnownProcess.of(os.getpid())
    assert this is not None
    stale = record.model_copy(update={"process": this.model_copy(update={"started": this.started - 60})})
    engine_files.write_private(engine_files.record_file(), stale.model_dump_json())

    assert running_engine() is None
    assert stop_engine() is None
    again, started = start(port)
    assert started
    assert again.process.pid != os.getpid()


def test_a_server_that_does_not_start_says_why_and_leaves_nothing(spark_submit, port):
    spark_submit("raise SystemExit('java.lang.IllegalArgumentException: not enough memory')")

    with pytest.raises(SparkUnavailableError, match=r"IllegalArgumentException: not enough memory\); see /"):
        start(port)
    assert running_engine() is None


def test_a_server_that_refuses_every_client_is_ended_again(spark_submit, port):
    spark_submit()
    seen: list[int] = []

    def connect(_: Remote) -> str:
        with socket.create_connection(("127.0.0.1", port)):
            seen.append(port)
        raise SparkServerUnavailableError("no")

    with pytest.raises(SparkServerUnavailableError):
        start(port, connect=connect)
    assert seen == [port]
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


def test_a_port_in_use_is_refused_before_anything_is_started(spark_submit, port, tmp_path: Path):
    spark_submit()

    with (
        socket.create_server(("127.0.0.1", port)),
        pytest.raises(BackfillError, match=r"choose another one with --port"),
    ):
        start(port)
    assert not (tmp_path / "arguments").exists()


def test_settings_are_written_so_that_java_reads_them_back():
    from airflow_backfill_provider.applications.local_engine.server import _as_properties

    written = _as_properties({"spark.a b": r"C:\x", "spark.c": " d\ne", "spark.jsön": "ü=ö"})

    assert written == "spark.a\\ b=C:\\\\x\nspark.c=\\ d\\ne\nspark.jsön=ü=ö\n"


def test_each_start_makes_a_new_token(spark_submit, port):
    spark_submit()
    start(port)
    token = token_of(Remote(host="127.0.0.1", port=port))
    stop_engine()
    start(port)

    assert token is not None
    assert token_of(Remote(host="localhost", port=port)) not in {None, token}


NOT_LISTENING = "import time\ntime.sleep(60)"


@pytest.mark.parametrize("address", ["::1", "127.0.0.1"])
def test_the_token_is_not_sent_to_a_process_that_listens_first(spark_submit, port, address, monkeypatch):
    """Between the check that the port is free and the server's start, anybody may take it."""
    spark_submit(NOT_LISTENING)
    monkeypatch.setattr(server, "_require_free", lambda _: None)
    seen: list[Remote] = []
    family = socket.AF_INET6 if ":" in address else socket.AF_INET

    with (
        socket.create_server((address, port), family=family),
        pytest.raises(BackfillError, match=rf"port {port} cannot be used \(another process listens there\)"),
    ):
        start(port, connect=lambda remote: seen.append(remote) or "4.2.0")
    assert seen == []
    assert running_engine() is None

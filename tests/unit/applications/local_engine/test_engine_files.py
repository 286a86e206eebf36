"""The files of the engine: who may read them, and what they say."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from airflow_backfill_provider.applications.local_engine import engine_files
from airflow_backfill_provider.applications.local_engine.engine_files import EngineRecord, running_engine, token_of
from airflow_backfill_provider.applications.local_engine.known_process import KnownProcess
from airflow_backfill_provider.core.errors import BackfillError, SparkServerUnavailableError
from airflow_backfill_provider.core.remote import Remote
from tests.builders import NOW


def record_of(process: KnownProcess, port: int = 15002) -> EngineRecord:
    return EngineRecord(process=process, port=port, master="local[2]", memory="2g", version="4.2.0", started_at=NOW)


@pytest.fixture
def running() -> EngineRecord:
    """The record of an engine, with this process as its server."""
    this = KnownProcess.of(os.getpid())
    assert this is not None
    record = record_of(this)
    engine_files.make_folder()
    engine_files.write_private(engine_files.record_file(), record.model_dump_json())
    return record


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# --- the folder -----------------------------------------------------------------------------------


def test_each_machine_has_a_folder_for_its_owner_alone(state_home):
    """Machines may share home folders."""
    folder = engine_files.make_folder()
    assert folder == state_home / "airflow-backfill" / "engine" / socket.gethostname()
    assert mode_of(folder) == 0o700
    folder.chmod(0o755)
    assert mode_of(engine_files.make_folder()) == 0o700


@pytest.mark.parametrize("state", ["", "not/absolute"])
def test_without_a_state_folder_it_lies_in_the_home_folder(monkeypatch, tmp_path, state):
    monkeypatch.setenv("XDG_STATE_HOME", state)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert engine_files.folder().is_relative_to(tmp_path / ".local" / "state")


def test_a_folder_that_cannot_be_made_says_what_to_set(state_home):
    state_home.write_text("a file in its place", encoding="utf-8")
    with pytest.raises(BackfillError, match=r"cannot be created \(.*\); set XDG_STATE_HOME to a folder"):
        engine_files.make_folder()


def test_all_files_lie_in_the_folder_each_with_its_own_name():
    files = [
        engine_files.record_file(),
        engine_files.token_file(),
        engine_files.log_file(),
        engine_files.output_file(),
        engine_files.logging_file(),
        engine_files.conf_file(),
    ]
    assert {file.parent for file in files} == {engine_files.folder()}
    assert len({file.name for file in files}) == len(files)


def test_a_private_file_is_replaced_whole(state_home):
    file = engine_files.make_folder() / "secret"
    file.write_text("a longer text than the next one", encoding="utf-8")
    file.chmod(0o644)
    engine_files.write_private(file, "ü\n")
    assert (file.read_text(encoding="utf-8"), mode_of(file)) == ("ü\n", 0o600)
    assert list(file.parent.iterdir()) == [file]


# --- the record -----------------------------------------------------------------------------------


def test_an_engine_is_found_by_its_record(running):
    assert running_engine() == engine_files.read_record() == running
    assert running.remote == Remote(host="localhost", port=15002)


@pytest.mark.parametrize("text", [None, "{", "{}", '{"process": 1}'])
def test_a_record_that_is_missing_or_cannot_be_read_is_none(text):
    if text is not None:
        engine_files.make_folder()
        engine_files.record_file().write_text(text, encoding="utf-8")
    assert running_engine() is None


def test_the_record_of_an_engine_that_ended_is_there_and_not_running(running):
    ended = running.process.model_copy(update={"started": running.process.started - 60})
    engine_files.write_private(engine_files.record_file(), record_of(ended).model_dump_json())
    assert engine_files.read_record() == record_of(ended)
    assert running_engine() is None


# --- the token ------------------------------------------------------------------------------------


def test_each_engine_has_a_token_of_its_own():
    engine_files.make_folder()
    assert engine_files.read_token() is None
    token = engine_files.make_token()
    assert len(token) >= 32
    assert engine_files.read_token() == token
    assert engine_files.make_token() == engine_files.read_token() != token
    assert mode_of(engine_files.token_file()) == 0o600


WAIT = "print(flush=True); input()"
LISTEN = "import socket; listening = socket.create_server(('127.0.0.1', {port})); " + WAIT


@pytest.mark.parametrize(("engine", "foreign"), [(WAIT, []), (WAIT, ["127.0.0.1"]), (WAIT, ["::1"]), (LISTEN, ["::1"])])
def test_the_token_is_not_sent_to_another_process_at_the_engines_port(port, engine, foreign):
    """This process is the foreign one. It listens where the engine does not, or where ``localhost`` may lead, too."""
    engine_files.make_folder()
    engine_files.make_token()
    program = [sys.executable, "-S", "-c", engine.format(port=port)]
    with ExitStack() as stack:
        server = stack.enter_context(subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        assert server.stdout is not None
        server.stdout.readline()
        for address in foreign:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            stack.enter_context(socket.create_server((address, port), family=family))
        process = KnownProcess.of(server.pid)
        assert process is not None
        record = record_of(process).model_copy(update={"port": port})
        engine_files.write_private(engine_files.record_file(), record.model_dump_json())

        with pytest.raises(SparkServerUnavailableError, match=r"so the engine's token is not sent"):
            token_of(Remote(host="localhost", port=port))


def test_the_token_is_for_this_users_running_engine_only(running):
    token = engine_files.make_token()
    with socket.create_server(("127.0.0.1", running.port)):
        assert token_of(Remote(host="localhost", port=15002)) == token
        assert token_of(Remote(host="127.0.0.1", port=15002)) == token
        assert token_of(Remote(host="localhost", port=15003)) is None
        assert token_of(Remote(host="spark.example", port=15002)) is None
        assert token_of(Remote(host="localhost", port=15002, use_ssl=True)) is None
        engine_files.record_file().unlink()
        assert token_of(Remote(host="localhost", port=15002)) is None

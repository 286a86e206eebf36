"""The lock of a local job: drivers take turns, and an error names the obstacle."""

from __future__ import annotations

import os
import threading
import time

import pytest

from airflow_backfill_provider.core.errors import StorageUnavailableError
from airflow_backfill_provider.spark import driver_lock as locks
from airflow_backfill_provider.spark.driver_lock import driver_lock


def test_a_folder_that_cannot_be_created_is_a_storage_error(tmp_path):
    (tmp_path / "state").write_text("a file")
    with (
        pytest.raises(StorageUnavailableError, match="state/job cannot be reached"),
        driver_lock(tmp_path / "state/job"),
    ):
        pass


def test_the_block_may_fail_with_its_own_error(tmp_path):
    with pytest.raises(OSError, match="its own"), driver_lock(tmp_path / "job"):
        raise OSError("its own")


def entering(folder):
    """Begin to wait for the lock in a thread; returns the thread, and an event for when it has the lock."""
    entered = threading.Event()

    def wait() -> None:
        with driver_lock(folder):
            entered.set()

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    return waiting, entered


def test_a_second_driver_waits_until_the_first_is_done(tmp_path, monkeypatch, caplog):
    caplog.set_level("INFO", locks.__name__)
    monkeypatch.setattr(locks, "KEPT_ALIVE_EVERY", 0.04)
    with driver_lock(tmp_path):
        waiting, entered = entering(tmp_path)
        while "waiting for it" not in caplog.text:
            assert not entered.wait(0.01)
    waiting.join(60)
    assert entered.is_set()


def test_a_holder_that_shows_life_is_waited_for_however_long_it_takes(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "KEPT_ALIVE_EVERY", 0.04)
    monkeypatch.setattr(locks, "DEAD_AFTER", 2.0)
    with driver_lock(tmp_path):
        # As if it had begun a day ago; its signs of life make up for it.
        os.utime(tmp_path / ".driver.lock", (0, 0))
        while time.time() - (tmp_path / ".driver.lock").stat().st_mtime > 60:
            time.sleep(0.01)
        waiting, entered = entering(tmp_path)
        assert not entered.wait(0.2)
    waiting.join(60)
    assert entered.is_set()


def test_a_holder_that_hangs_is_not_waited_for(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(locks, "_keep_alive", lambda *_: None)
    with driver_lock(tmp_path):
        os.utime(tmp_path / ".driver.lock", (0, 0))
        monkeypatch.setattr(locks, "KEPT_ALIVE_EVERY", 0.04)
        waiting, _ = entering(tmp_path)
        waiting.join(60)
        assert not waiting.is_alive()
    assert "hangs for" in caplog.text

"""One listing of a log serves a block, until the block writes to the table."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from airflow_backfill_provider.lake.store.one_listing import forget, listed, one_listing


class Log:
    """A log that tells how often it was listed."""

    def __init__(self) -> None:
        self.listings = 0

    def look(self) -> int:
        def list_it() -> int:
            self.listings += 1
            return self.listings

        return listed(self, list_it)


@pytest.fixture
def log() -> Log:
    return Log()


def test_each_look_lists_the_log(log: Log) -> None:
    assert [log.look(), log.look()] == [1, 2]


def test_a_block_lists_each_log_once(log: Log) -> None:
    other = Log()
    with one_listing():
        assert [log.look(), other.look(), log.look(), other.look()] == [1, 1, 1, 1]
    assert log.look() == 2


def test_a_block_within_a_block_uses_its_listings(log: Log) -> None:
    with one_listing():
        log.look()
        with one_listing():
            assert log.look() == 1
        assert log.look() == 1


def test_a_log_that_was_written_to_is_listed_again(log: Log) -> None:
    other = Log()
    with one_listing():
        log.look()
        other.look()
        forget(log)
        assert [log.look(), log.look(), other.look()] == [2, 2, 1]
    forget(log)
    assert log.look() == 3


def test_an_error_ends_the_block(log: Log) -> None:
    def fail_in_a_block() -> None:
        with one_listing():
            log.look()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_in_a_block()
    assert log.look() == 2


def test_other_threads_list_the_log_themselves(log: Log) -> None:
    with one_listing(), ThreadPoolExecutor(1) as threads:
        log.look()
        assert threads.submit(log.look).result() == 2
        assert log.look() == 1

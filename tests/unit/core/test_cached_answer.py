"""An answer is read again when it may have changed, and only then."""

from __future__ import annotations

from itertools import count

import pytest

from airflow_backfill_provider.core.cached_answer import CachedAnswer


def test_an_answer_is_read_once_at_the_same_versions():
    cached, answers = CachedAnswer[int](), count()

    assert [cached.get(versions, lambda: next(answers)) for versions in [(1, 1), (1, 1), (1, 2), (1, 1)]] == [
        0,
        0,
        1,
        2,
    ]


def test_none_is_an_answer_too():
    cached, answers = CachedAnswer[int | None](), iter([None])

    assert cached.known(None) is None
    assert cached.get(None, lambda: next(answers)) is cached.get(None, lambda: next(answers)) is None


@pytest.mark.parametrize(("seconds", "read"), [(0.0, 2), (1000.0, 1)])
def test_an_answer_that_is_too_old_is_read_again(seconds, read):
    cached, answers = CachedAnswer[int](seconds), count(1)

    assert [cached.get(None, lambda: next(answers)) for _ in range(2)][-1] == read


def test_a_failure_is_not_kept_and_the_last_answer_stays():
    cached = CachedAnswer[str]()
    cached.get(1, lambda: "one")

    with pytest.raises(ZeroDivisionError):
        cached.get(2, lambda: str(1 / 0))

    assert cached.known(2) is None
    assert cached.get(1, lambda: "again") == "one"


def test_a_late_answer_is_not_used_for_newer_versions():
    """The first reader's answer arrives after the second's, for example from a trigger that was cancelled meanwhile."""
    cached = CachedAnswer[str]()

    def slow() -> str:
        cached.get(2, lambda: "new")
        return "old"

    assert cached.get(1, slow) == "old"

    assert cached.get(2, lambda: "newer") == "newer"

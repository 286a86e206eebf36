"""The transactions that a new reader does not see, although the log may have them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from airflow_backfill_provider.sources.shared.postgresql.transactions import UnseenTransactions

LAST = (1 << 32) - 1


@pytest.mark.parametrize(
    ("unseen", "transactions", "among"),
    [
        (UnseenTransactions(frozenset(), 100), [3, 99, 100, 101, 5000], [100, 101, 5000]),
        (UnseenTransactions(frozenset({7, 42}), 100), [3, 7, 42, 99], [7, 42]),
        (UnseenTransactions(frozenset({LAST}), 3), [LAST - 1, LAST, 1, 3, 4], [LAST, 3, 4]),
        (UnseenTransactions(frozenset(), LAST), [LAST - 1, LAST, 0, 5], [LAST, 0, 5]),
    ],
)
def test_ids_begin_again_at_their_end(unseen, transactions, among):
    assert [transaction for transaction in transactions if transaction in unseen] == among
    assert unseen.among(pa.array([*transactions, None, among[0]], pa.int64())) == among


def test_later_transactions_are_ranges_of_ids_which_begin_again_at_their_end():
    half = 1 << 31
    assert UnseenTransactions(frozenset(), 100).later == ((100, 100 + half), (1, 100 - half))
    assert UnseenTransactions(frozenset(), LAST).later == ((LAST, LAST + half), (1, half - 1))

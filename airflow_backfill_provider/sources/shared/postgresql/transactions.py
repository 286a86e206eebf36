"""
The transactions that a new reader of a PostgreSQL database does not see, although the log may have them.

The server writes a transaction's commit into the log a moment before others see the transaction; with synchronous
replication, long before.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from airflow_backfill_provider.core.errors import UpstreamError
from airflow_backfill_provider.sources.shared.postgresql.catalog import Connection

XID_BITS = 32
"""The log has transaction ids of 32 bits; they begin again at their end."""

_MASK = (1 << XID_BITS) - 1

_HALF = 1 << (XID_BITS - 1)
"""Of two ids, the later one is less than half of all ids ahead."""


@dataclass(frozen=True, slots=True)
class UnseenTransactions:
    """
    Transactions that a snapshot does not see.

    :param in_progress: the ids of those that are older than its end.
    :param later_from: the id from which it sees none.
    """

    in_progress: frozenset[int]
    later_from: int

    @property
    def later(self) -> tuple[tuple[int, int], ...]:
        """The ids that it sees none of, each range from a first one up to before another; 0 is no transaction."""
        return (self.later_from, self.later_from + _HALF), (1, self.later_from - _HALF)

    def __contains__(self, transaction: int) -> bool:
        """Return whether a transaction of the log is one of them."""
        return bool(self.among(pa.array([transaction], pa.int64())))

    def among(self, transactions: pa.Array) -> list[int]:
        """Return which of many transactions are among them."""
        ids = transactions.cast(pa.int64())
        is_later = pc.less(pc.bit_wise_and(pc.subtract(ids, self.later_from), _MASK), _HALF)
        is_listed = pc.is_in(pc.bit_wise_and(ids, _MASK), pa.array(sorted(self.in_progress), pa.int64()))
        found = transactions.filter(pc.fill_null(pc.or_(is_later, is_listed), False))
        return [int(transaction) for transaction in found.unique().to_pylist()]


def unseen_transactions(connection: Connection) -> UnseenTransactions:
    """Return what a reader that begins now does not see."""
    row = connection.execute("SELECT pg_current_snapshot()::text").fetchone()
    if row is None:
        raise UpstreamError("the server returned no snapshot")
    _, end, in_progress = row[0].split(":")
    # A snapshot also has the number of times that the ids have begun again.
    ids = frozenset(int(xid) & _MASK for xid in in_progress.split(",") if xid)
    return UnseenTransactions(ids, int(end) & _MASK)

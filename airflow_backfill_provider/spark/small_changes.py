"""
Helps to merge few changes into a large view without shuffling the view.

Delta stores the changes before it merges them, and Spark then no longer knows that they are few. A broadcast hint helps
to find the touched files. It does not help a merge that also inserts: its outer join shuffles every row of every
touched file, with all columns. With deletion vectors nearly all of these rows stay where they are, so a Bloom filter of
the changed keys, written into the merge's condition, excludes them when the files are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.sources.shared.balanced import sum_of
from airflow_backfill_provider.sources.shared.by_key import column

MOST_VALUES_SENT = 2_000_000
"""The most values (rows times columns) of changes that are sent to every executor: some ten megabytes."""

MOST_BYTES_SENT = 32 * 1024 * 1024
"""The most bytes of texts and other values without a fixed width in these changes. An engine holds a few copies."""

MOST_KEYS = 20_000
"""The most keys in a filter; Delta stores the condition in its log, with some three bytes for each key."""

BITS_PER_KEY = 8
"""Bits for each key. With one hash, about one in nine rows with an unchanged key passes."""

MOST_ROWS_OF_A_TASK = 50_000
"""The most rows that one task handles alone; more tasks would have to exchange them first."""

_WORD = 64

_TEXTS = {"string", "binary"}
_FIXED_WIDTH = re.compile(r"boolean|byte|short|integer|long|float|double|date|timestamp(_ntz)?|decimal\(.*\)|void")


def broadcast_if_few(changes: DataFrame, rows: int, value_bytes: int) -> DataFrame:
    """
    Return changes with a hint to send them to every executor, if they are few and narrow enough.

    :param rows: the number of changes.
    :param value_bytes: what their values take; see :func:`bytes_of`.
    """
    is_small = rows * len(changes.columns) <= MOST_VALUES_SENT and value_bytes <= MOST_BYTES_SENT
    return changes.hint("broadcast") if is_small else changes


def in_one_task_if_few(rows: DataFrame, number: int, value_bytes: int) -> DataFrame:
    """
    Return rows in one partition if they are few and narrow enough, so that Spark groups and sorts them where they are.

    :param rows: rows that are kept, because one task would also make them.
    :param number: their number, or a greater one.
    :param value_bytes: what their values take; see :func:`bytes_of`.
    """
    is_small = number <= MOST_ROWS_OF_A_TASK and value_bytes <= MOST_BYTES_SENT
    return rows.coalesce(1) if is_small else rows


def is_fixed_width(type_: str) -> bool:
    """Return whether all values of a type, as Delta writes it, take as many bytes."""
    return _FIXED_WIDTH.fullmatch(type_) is not None


def bytes_of(types: Mapping[str, str]) -> Column:
    """
    Return about how many bytes a row's texts and other values without a fixed width take.

    :param types: the columns and their types, as Delta writes them; nested types as JSON.
    """
    return sum_of([_bytes_of(column(name), kind) for name, kind in types.items() if not is_fixed_width(kind)])


def _bytes_of(value: Column, kind: str) -> Column:
    # A nested value has no length of its own; its text takes about as much.
    sized = value if kind in _TEXTS else value.cast("string")
    return F.coalesce(F.octet_length(sized).cast("long"), F.lit(0))


def key_filter(changes: DataFrame, keys: Mapping[str, str], relation: str) -> str:
    """
    Return an SQL condition that every row with a changed key meets, and few others.

    :param changes: the changes, at most :data:`MOST_KEYS`.
    :param keys: the key columns and their types in the relation.
    :param relation: the relation's alias.
    """
    hashes = changes.select(hash_of(keys).alias("__hash")).toArrow().column(0).to_pylist()
    return hash_filter(hashes, keys, relation)


def hash_of(keys: Mapping[str, str]) -> Column:
    """Return the hash of a key for :func:`hash_filter`; it depends on the types of the key columns."""
    return F.xxhash64(*(column(name).cast(type_) for name, type_ in keys.items()))


def hash_filter(hashes: Iterable[int], keys: Mapping[str, str], relation: str) -> str:
    """Return the condition of :func:`key_filter` from the hashes of the keys."""
    words = filter_words(hashes)
    of_row = ", ".join(f"CAST({relation}.{quote(name)} AS {type_})" for name, type_ in keys.items())
    bit = f"pmod(xxhash64({of_row}), {len(words) * _WORD}L)"
    word = f"element_at(array({', '.join(f'{word}L' for word in words)}), CAST({bit} DIV {_WORD} AS INT) + 1)"
    return f"getbit({word}, CAST({bit} % {_WORD} AS INT)) = 1"


def filter_words(hashes: Iterable[int]) -> list[int]:
    """Return a filter with the bit of every hash set, as signed numbers of 64 bits each."""
    hashes = set(hashes)
    words = [0] * max(-(-len(hashes) * BITS_PER_KEY // _WORD), 1)
    for found in hashes:
        word, bit = divmod(found % (len(words) * _WORD), _WORD)
        words[word] |= 1 << bit
    return [word - (1 << _WORD) if word >> (_WORD - 1) else word for word in words]

"""The rows that a view keeps, from a plain history of every version: the oracle of views that keep former rows."""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

Row = tuple[Any, ...]
Rows = Mapping[Hashable, Row]
"""The rows of the query as of a version, by their keys."""


def history_of(versions: Sequence[Rows], since: Mapping[Hashable, int]) -> set[tuple[Any, ...]]:
    """
    Return the key, the row, its begin, its end, and whether it is current, of each row that a key had.

    :param versions: the rows of the query as of each version, from version 0.
    :param since: the version from which on the history of each key is known.
    """
    kept = set()
    for key, first in since.items():
        begins, row = first, versions[first].get(key)
        for version in range(first + 1, len(versions) + 1):
            is_end = version == len(versions)
            following = None if is_end else versions[version].get(key)
            if is_end or following != row:
                if row is not None:
                    kept.add((key, row, begins, None if is_end else version, is_end))
                begins, row = version, following
    return kept


def deleted_of(versions: Sequence[Rows], since: Mapping[Hashable, int]) -> set[tuple[Any, ...]]:
    """Return the key, the last row, and the version that removed it, of each key; see :func:`history_of`."""
    last: dict[Hashable, tuple[Any, ...]] = {}
    for key, row, begins, ends, _ in history_of(versions, since):
        if key not in last or last[key][0] < begins:
            last[key] = (begins, (key, row, ends))
    return {found for _, found in last.values()}


def random_states(chance: random.Random, keys: Iterable[Hashable], rows: Sequence[Row], number: int) -> list[Rows]:
    """Return random rows as of some versions; keys come, change, stay, go and come back."""
    versions: list[dict[Hashable, Row]] = [{}]
    wanted = [*keys]
    for _ in range(number - 1):
        following = dict(versions[-1])
        for key in wanted:
            drawn = chance.random()
            if drawn < 0.25:
                following.pop(key, None)
            elif drawn < 0.6:
                following[key] = chance.choice(rows)
        versions.append(following)
    return list(versions)

"""
The upstream of a view of groups: random histories in which rows often move between groups, and the images of a change.

Columns of a unit are nullable. Many rows are in one large group, and groups vanish and come back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from random import Random

from tests.model.upstream import Change, Upstream, as_stream
from tests.strategies import Delete, Insert, Key, KeyColumn, Operation, Row, Update, Write

KEYS = range(12)
STATUSES = (None, "a", "b", "c", "d")
SHOPS = (None, 1, 2)
AMOUNTS = (None, -1, 0, 1, 2, 3)
VERSIONS = 14
VALUES: Mapping[str, tuple[str | int | None, ...]] = {"status": STATUSES, "shop": SHOPS}
"""What a column of a unit may have."""


@dataclass(frozen=True, slots=True)
class Sale(Row):
    """A row with a second column that groups, and one that orders the rows of a group."""

    shop: int | None = None
    at: int = 0


Images = tuple[Sale | None, Sale | None]
"""The old and the new image of a change; None where there is no row."""


def a_history(random: Random, versions: int = VERSIONS) -> Upstream:
    """Return an upstream with so many versions after its initial rows. It may begin empty."""
    large = (random.choice(STATUSES), random.choice(SHOPS))
    initial = random.sample(KEYS, random.randint(1, 10)) if random.random() < 0.9 else []
    upstream = Upstream((KeyColumn("id"),), [_a_sale(random, (key,), large) for key in initial])
    for _ in range(versions):
        upstream.write(_a_write(random, upstream.as_of(upstream.latest), large))
    return upstream


def sales(rows: Iterable[Row]) -> list[Sale]:
    """Return rows as what they are in the histories of this module."""
    return [row for row in rows if isinstance(row, Sale)]


def images_of(
    upstream: Upstream, after: int, up_to: int, *, old_image: Callable[[list[Change]], Sale | None]
) -> list[Images]:
    """Return the images of each key that changed in ``(after, up_to]``; ``old_image`` picks the old one."""
    by_key: dict[Key, list[Change]] = defaultdict(list)
    for change in as_stream(upstream.changes(after, up_to)):
        by_key[change.row.key].append(change)
    return [(old_image(changes), last_image(changes)) for changes in by_key.values()]


def first_image(changes: list[Change]) -> Sale | None:
    """Return the image at the window's start: what the first change of a key removed."""
    return _sale(changes[0], writes=False)


def last_preimage(changes: list[Change]) -> Sale | None:
    """Return what the last removal of a key removed, which may be a row of the middle of the window."""
    return next((sale for change in reversed(changes) if (sale := _sale(change, writes=False))), None)


def last_image(changes: list[Change]) -> Sale | None:
    """Return the image at the window's end: what the last change of a key wrote."""
    return _sale(changes[-1], writes=True)


def _sale(change: Change, *, writes: bool) -> Sale | None:
    return change.row if change.writes is writes and isinstance(change.row, Sale) else None


def _a_sale(random: Random, key: Key, large: tuple[str | None, int | None]) -> Sale:
    status, shop = large if random.random() < 0.35 else (random.choice(STATUSES), random.choice(SHOPS))
    return Sale(key, status, random.choice(AMOUNTS), shop, random.randint(0, 3))


def _a_write(random: Random, table: dict[Key, Row], large: tuple[str | None, int | None]) -> Write:
    """Return up to three statements in one version, each on keys of its own."""
    operations: list[Operation] = []
    here, free = list(table), [(key,) for key in KEYS if (key,) not in table]
    random.shuffle(here)
    random.shuffle(free)
    for _ in range(random.randint(1, 3)):
        statement = random.choice(("insert", "insert", "update", "update", "delete", "again", "rekey", "swap"))
        if statement == "insert" and free:
            operations.append(Insert(_a_sale(random, free.pop(), large)))
        elif statement == "swap" and len(here) > 1:
            one, other = here.pop(), here.pop()
            operations += [Update(one, replace(table[one], key=other)), Update(other, replace(table[other], key=one))]
        elif statement == "update" and here:
            operations.append(Update(key := here.pop(), _a_sale(random, key, large)))
        elif statement == "delete" and here:
            operations.append(Delete(here.pop()))
        elif statement == "again" and here:
            operations += [Delete(key := here.pop()), Insert(_a_sale(random, key, large))]
        elif statement == "rekey" and here and free:
            operations.append(Update(key := here.pop(), replace(table[key], key=free.pop())))
    return Write(tuple(operations))

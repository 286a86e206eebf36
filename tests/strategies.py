"""
Hypothesis strategies for everything a backfill meets: rows, keys, write histories, barriers and crashes.

What is generated are plain frozen values that *describe* operations. They know no engine: the models in
``tests/model`` and the property tests on Spark and Delta interpret the same descriptions. Every history is
valid by construction, so that an interpreter never has to skip an operation.

Keys are drawn from a small pool of values for each scenario, so that re-inserts, several changes of one key
in one window, key-changing updates onto freed keys and key swaps happen often. Values lean towards the edges:
nulls, both ends of a type, strings whose order differs between UTF-8 and UTF-16 or whose statistics Delta
cuts off, timestamps that differ by microseconds.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypothesis.strategies import DrawFn, SearchStrategy

KeyValue = int | str | Decimal | dt.date | dt.datetime | bytes | bool
Key = tuple[KeyValue | None, ...]

CRASH_POINTS = (
    "after_pin",
    "before_changes_commit",
    "after_changes_commit",
    "before_snapshot_commit",
    "after_snapshot_commit",
    "before_state_commit",
    "after_state_commit",
    "before_log_commit",
)
"""Where an epoch can die, in the order in which it passes them."""

HUGE_RATE_LIMIT = 10**9


# --- descriptions ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """One column of the key; ``type`` is Delta's name of it. Nulls come first in both directions."""

    name: str
    type: str = "long"
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """An upstream row. The usual query keeps rows with ``status = 'paid'`` and computes from ``amount``."""

    key: Key
    status: str | None = "paid"
    amount: int | None = None


@dataclass(frozen=True, slots=True)
class Insert:
    """Add a row whose key is not in the table, or was freed by the same version."""

    row: Row


@dataclass(frozen=True, slots=True)
class Update:
    """Replace the row with ``key`` by ``row``. If the two keys differ the row is re-keyed."""

    key: Key
    row: Row


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove the row with ``key``."""

    key: Key


Operation = Insert | Update | Delete


@dataclass(frozen=True, slots=True)
class Write:
    """
    One version of the upstream. All operations happen at once, each on the rows as they were before, so that
    two updates can swap their keys. Without operations it is a version that changes no row, such as an
    OPTIMIZE.
    """

    operations: tuple[Operation, ...] = ()

    def applied_to(self, table: Mapping[Key, Row]) -> dict[Key, Row]:
        """Return the table after this version; raise ``ValueError`` if it cannot be applied."""
        result = dict(table)
        for operation in self.operations:
            if not isinstance(operation, Insert) and result.pop(operation.key, None) is None:
                raise ValueError(f"no row to change, or changed twice: {operation}")
        for operation in self.operations:
            if not isinstance(operation, Delete):
                if operation.row.key in result:
                    raise ValueError(f"the key is taken: {operation}")
                result[operation.row.key] = operation.row
        return result


@dataclass(frozen=True, slots=True)
class Barrier:
    """
    One task run: inject and execute an epoch. ``rate_limit`` counts snapshot rows; ``None`` is unlimited, 0
    is paused. If an earlier barrier is still uncommitted, that one is executed instead, with the settings it
    was pinned with.
    """

    rate_limit: int | None = None
    paused: bool = False


@dataclass(frozen=True, slots=True)
class Crash:
    """A task run that dies at one of :data:`CRASH_POINTS`; the next one has to repair it."""

    point: str
    barrier: Barrier = Barrier()


@dataclass(frozen=True, slots=True)
class Rescale:
    """A change of the number of task runs that share an epoch; it takes effect with the next barrier."""

    parallelism: int


Event = Write | Barrier | Crash | Rescale


@dataclass(frozen=True, slots=True)
class Scenario:
    """An upstream at the moment when the job is created, and what happens afterwards."""

    columns: tuple[KeyColumn, ...]
    initial: tuple[Row, ...]
    events: tuple[Event, ...]


# --- keys -----------------------------------------------------------------------------------------


def _integers(bits: int) -> SearchStrategy[int]:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return st.integers(-3, 9) | st.sampled_from([low, low + 1, high - 1, high])


def _decimals(precision: int, scale: int) -> SearchStrategy[Decimal]:
    largest = 10**precision - 1
    unscaled = st.integers(-3, 12) | st.sampled_from([-largest, largest, 10**scale, -(10**scale)])
    # Built from digits: arithmetic would round to the context's 28 digits.
    return unscaled.map(lambda n: Decimal((int(n < 0), tuple(int(d) for d in str(abs(n))), -scale)))


_STRINGS = st.sampled_from(
    [
        *["", " ", "A", "B", "Z", "a", "aa", "ab", "b", "ä", "'", '"', "`", "%", "\\", "null"],
        # In UTF-16 the first of these two comes after the second, in UTF-8 before it.
        *["\ufffd", "\U00010000"],
        # Delta's statistics keep 32 characters.
        *["x" * 32, "x" * 32 + "a", "x" * 32 + "b", "x" * 33],
    ]
) | st.text(alphabet="abcXYZ019 _-é€", max_size=4)
_DATES = st.dates(dt.date(1999, 12, 29), dt.date(2000, 1, 3)) | st.sampled_from(
    [dt.date(1900, 1, 1), dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(9999, 12, 31)]
)
# Delta's statistics cut timestamps to milliseconds, so that a maximum can lie below the real value.
_BEFORE_LEAP_DAY = dt.datetime.fromisoformat("2024-02-28T23:59:59")
_LOCAL_TIMES = st.sampled_from([0, 1, 499, 999, 1000, 1001, 1999, 86_400_000_000]).map(
    lambda micros: _BEFORE_LEAP_DAY + dt.timedelta(microseconds=micros)
) | st.sampled_from(["1969-12-31T23:59:59.999999", "1970-01-01"]).map(dt.datetime.fromisoformat)

KEY_VALUES: dict[str, SearchStrategy[KeyValue]] = {
    "byte": _integers(8),
    "short": _integers(16),
    "integer": _integers(32),
    "long": _integers(64),
    "string": _STRINGS,
    "decimal(5,3)": _decimals(5, 3),
    "decimal(20,2)": _decimals(20, 2),
    "decimal(38,0)": _decimals(38, 0),
    "date": _DATES,
    "timestamp": _LOCAL_TIMES.map(lambda moment: moment.replace(tzinfo=dt.UTC)),
    "timestamp_ntz": _LOCAL_TIMES,
    "binary": st.binary(max_size=2) | st.sampled_from([b"", b"\x00", b"\x7f", b"\x80", b"\xff"]),
    "boolean": st.booleans(),
}
"""Values of a key column by Delta's name of its type."""

_VALUES_OR_NULL = {type_: st.none() | values for type_, values in KEY_VALUES.items()}


def key_columns(
    *, types: Sequence[str] = tuple(KEY_VALUES), max_columns: int = 3, directions: bool = True
) -> SearchStrategy[tuple[KeyColumn, ...]]:
    """Draw a key of one or more columns; with ``directions`` some of them descend."""
    column = st.tuples(st.sampled_from(types), st.booleans() if directions else st.just(value=False))
    return st.lists(column, min_size=1, max_size=max_columns).map(
        lambda drawn: tuple(KeyColumn(f"k{i}", type_, descending) for i, (type_, descending) in enumerate(drawn, 1))
    )


def keys(columns: Sequence[KeyColumn], *, nullable: bool = True) -> SearchStrategy[Key]:
    """
    Draw one key; with ``nullable`` each of its columns may be null. A keyless table has the one key ``()``.
    """
    values = _VALUES_OR_NULL if nullable else KEY_VALUES
    return st.tuples(*(values[column.type] for column in columns))


def key_pools(
    columns: Sequence[KeyColumn], *, max_size: int = 8, nullable: bool = True
) -> SearchStrategy[tuple[Key, ...]]:
    """Draw the distinct keys that one scenario uses."""
    if not columns:
        return st.just(((),))
    return st.lists(keys(columns, nullable=nullable), min_size=1, max_size=max_size, unique=True).map(tuple)


# --- rows and writes ------------------------------------------------------------------------------


_STATUS = st.sampled_from(["paid", "open", "paid", None])
_AMOUNTS = st.none() | st.integers(-9, 9)


def rows(key: Key) -> SearchStrategy[Row]:
    """Draw a row with this key; about half of them pass the usual query's filter."""
    return st.builds(Row, key=st.just(key), status=_STATUS, amount=_AMOUNTS)


def tables(pool: Sequence[Key]) -> SearchStrategy[tuple[Row, ...]]:
    """Draw the rows of an upstream, in any order, with some of the pool's keys."""
    chosen = st.lists(st.sampled_from(pool), max_size=len(pool), unique=True)
    return chosen.flatmap(lambda some: st.tuples(*(rows(key) for key in some)))


@st.composite
def writes(draw: DrawFn, pool: Sequence[Key], table: Mapping[Key, Row], *, max_operations: int = 4) -> Write:
    """Draw a version that can be written to ``table``, and that uses the pool's keys only."""
    untouched = list(table)
    taken = set(table)
    operations: list[Operation] = []
    for _ in range(draw(st.integers(0, max_operations))):
        free = [key for key in pool if key not in taken]
        kinds = (["insert"] if free else []) + (["update", "delete", "replace"] if untouched else [])
        kinds += ["rekey"] if free and untouched else []
        kinds += ["swap"] if len(untouched) > 1 else []
        if not kinds:
            break
        kind = draw(st.sampled_from(kinds))
        if kind == "insert":
            key = draw(st.sampled_from(free))
            operations.append(Insert(draw(rows(key))))
            taken.add(key)
            continue
        old = draw(st.sampled_from(untouched))
        untouched.remove(old)
        if kind == "update":
            operations.append(Update(old, draw(rows(old))))
        elif kind == "delete":
            operations.append(Delete(old))
            taken.remove(old)
        elif kind == "replace":
            operations += [Delete(old), Insert(draw(rows(old)))]
        elif kind == "rekey":
            freed = [key for key in free if key in table]
            new = draw(st.sampled_from(freed or free))
            operations.append(Update(old, draw(rows(new))))
            taken.remove(old)
            taken.add(new)
        else:
            other = draw(st.sampled_from(untouched))
            untouched.remove(other)
            operations += [Update(old, draw(rows(other))), Update(other, draw(rows(old)))]
    return Write(tuple(operations))


@st.composite
def histories(
    draw: DrawFn,
    pool: Sequence[Key],
    initial: Sequence[Row],
    *,
    max_versions: int = 6,
    max_operations: int = 4,
) -> tuple[Write, ...]:
    """Draw versions that can be written one after the other to a table that begins with ``initial``."""
    table: dict[Key, Row] = {row.key: row for row in initial}
    history = []
    for _ in range(draw(st.integers(0, max_versions))):
        write = draw(writes(pool, table, max_operations=max_operations))
        table = write.applied_to(table)
        history.append(write)
    return tuple(history)


# --- barriers, crashes and schedules --------------------------------------------------------------

RATE_LIMITS: SearchStrategy[int | None] = st.sampled_from([1, 2, None, 0, 3, HUGE_RATE_LIMIT])


# Making a strategy takes longer than drawing from it; those that every event needs are made once.
@cache
def barriers(rate_limits: SearchStrategy[int | None] = RATE_LIMITS) -> SearchStrategy[Barrier]:
    """Draw a barrier; one in four is paused whatever its rate limit, for the two are independent."""
    return st.builds(Barrier, rate_limit=rate_limits, paused=st.sampled_from([False, False, False, True]))


@cache
def crashes(points: Sequence[str] = CRASH_POINTS) -> SearchStrategy[Crash]:
    """Draw a barrier that dies at one of the points."""
    return st.builds(Crash, st.sampled_from(points), barriers())


def schedules(
    *, max_size: int = 8, points: Sequence[str] = CRASH_POINTS
) -> SearchStrategy[tuple[Barrier | Crash, ...]]:
    """Draw task runs one after the other, some of them dying (none if ``points`` is empty)."""
    run = barriers() | crashes(points) if points else barriers()
    return st.lists(run, max_size=max_size).map(tuple)


def turns(runners: int = 3, *, min_size: int = 0, max_size: int = 60) -> SearchStrategy[list[int]]:
    """Draw an interleaving: which of the runners takes each step."""
    return st.lists(st.integers(0, runners - 1), min_size=min_size, max_size=max_size)


_ANY_KEY = key_columns()


@cache
def _kinds(most: int, *, crashing: bool) -> SearchStrategy[list[str]]:
    kinds = ["write", "barrier", "write", "barrier"] + (["crash"] if crashing else [])
    return st.lists(st.sampled_from(kinds), max_size=most)


@st.composite
def scenarios(
    draw: DrawFn,
    *,
    columns: SearchStrategy[tuple[KeyColumn, ...]] | None = None,
    max_keys: int = 8,
    nullable: bool = True,
    max_events: int = 14,
    max_operations: int = 3,
    points: Sequence[str] = CRASH_POINTS,
) -> Scenario:
    """Draw an upstream and an interleaving of writes, barriers and (unless ``points`` is empty) crashes."""
    key = draw(_ANY_KEY if columns is None else columns)
    pool = draw(key_pools(key, max_size=max_keys, nullable=nullable))
    initial = draw(tables(pool))
    table: dict[Key, Row] = {row.key: row for row in initial}
    events: list[Event] = []
    for kind in draw(_kinds(max_events, crashing=bool(points))):
        if kind == "write":
            write = draw(writes(pool, table, max_operations=max_operations))
            table = write.applied_to(table)
            events.append(write)
        elif kind == "barrier":
            events.append(draw(barriers()))
        else:
            events.append(draw(crashes(points)))
    return Scenario(key, initial, tuple(events))


@st.composite
def rescaled(
    draw: DrawFn, scenario: SearchStrategy[Scenario], *, parallelism: int = 4, max_rescales: int = 3
) -> Scenario:
    """Draw a scenario in which the parallelism changes now and then."""
    drawn = draw(scenario)
    events = list(drawn.events)
    for runs in draw(st.lists(st.integers(1, parallelism), max_size=max_rescales)):
        events.insert(draw(st.integers(0, len(events))), Rescale(runs))
    return Scenario(drawn.columns, drawn.initial, tuple(events))

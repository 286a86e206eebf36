"""The planner on any files: never more rows than the rate limit, always some, and the same from every planner."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_backfill_provider.core.scan.file_statistics import FileStatistics
from airflow_backfill_provider.core.scan.keys import KeyOrder, KeyRange
from airflow_backfill_provider.core.scan.next_chunk import choose_chunk
from tests.builders import ExactKeys, Key, file_of, in_order, order_of

EXACT, LOOSE, LEADING, MISSING = "exact", "loose", "leading", "missing"
LAYOUTS = ("ordered", "random", "slices", "nested")

LETTERS = "\U0010ffff"


@dataclass(frozen=True)
class Table:
    """Data files with their keys and what the log says of them."""

    order: KeyOrder
    keys: dict[str, list[Key]]
    files: tuple[FileStatistics, ...]

    @property
    def rows(self) -> int:
        return sum(map(len, self.keys.values()))

    def plan(self, after, rate_limit, files=None):
        return choose_chunk(
            self.files if files is None else files,
            unread=[KeyRange(after, None)],
            rate_limit=rate_limit,
            order=self.order,
            keys=ExactKeys(self.keys, self.order),
        )

    def within(self, chunk):
        return ExactKeys(self.keys, self.order).within(self.keys, chunk)

    def chunks(self, rate_limit):
        """Yield the rows of every chunk of a backfill, to its end."""
        after = None
        for _ in range(10 * self.rows + 10):
            plan = self.plan(after, rate_limit)
            (chunk,) = plan.ranges
            assert chunk.after == after
            yield plan, self.within(chunk)
            assert plan.completes is (chunk.up_to is None)
            if plan.completes:
                return
            after = chunk.up_to
        raise AssertionError("I4: the backfill does not end")


VALUES = {
    "long": st.integers(-20, 60),
    "string": st.text(alphabet="abé\U00010000", max_size=3),
    "boolean": st.booleans(),
}


def loosened(bound, order, *, lower):
    """Return a bound that is not sharp, as of cut strings and rounded timestamps."""
    loose = []
    for value, field in zip(bound, order.fields, strict=True):
        down = lower != field.descending
        if isinstance(value, str):
            loose.append(value[:1] if down else value[:1] + LETTERS)
        elif isinstance(value, int) and not isinstance(value, bool):
            loose.append(value // 10 * 10 if down else -(-value // 10) * 10)
        else:
            loose.append(value)
    return tuple(loose)


def described(file, order, statistics):
    if statistics == MISSING:
        return replace(file, lower=(), upper=())
    if statistics == LEADING:
        return replace(file, lower=file.lower[:1], upper=file.upper[:1])
    if statistics == LOOSE:
        return replace(
            file,
            lower=loosened(file.lower, order, lower=True),
            upper=loosened(file.upper, order, lower=False),
        )
    return file


@st.composite
def tables(draw, *, statistics=(EXACT, LOOSE, LEADING, MISSING), layouts=LAYOUTS):
    """Draw a table of distinct keys in files whose key ranges may overlap in every way."""
    kinds = draw(
        st.lists(
            st.tuples(st.sampled_from(["long", "long", "string", "boolean"]), st.booleans()), min_size=1, max_size=3
        )
    )
    order = order_of(*kinds)
    key = st.tuples(*(st.one_of(st.none(), VALUES[kind]) if draw(st.booleans()) else VALUES[kind] for kind, _ in kinds))
    least = draw(st.sampled_from([0, 6, 12])) if any(kind == "long" for kind, _ in kinds) else 0
    keys = in_order(draw(st.lists(key, min_size=least, max_size=40, unique=True)), order)
    count = draw(st.integers(1, 8))
    layout = draw(st.sampled_from(layouts))
    if layout == "ordered":
        cuts = sorted(draw(st.lists(st.integers(0, len(keys)), min_size=count - 1, max_size=count - 1)))
        files = [keys[low:high] for low, high in zip([0, *cuts], [*cuts, len(keys)], strict=True)]
    elif layout == "slices":
        files = [keys[i::count] for i in range(count)]
    elif layout == "nested":
        files = [keys[::2], *([key] for key in keys[1::2])]
    else:
        numbers = draw(st.lists(st.integers(0, count - 1), min_size=len(keys), max_size=len(keys)))
        files = [[key for key, n in zip(keys, numbers, strict=True) if n == number] for number in range(count)]
    named = {f"part-{number}": list(file) for number, file in enumerate(files) if file}
    kind = st.sampled_from(statistics)
    return Table(
        order, named, tuple(described(file_of(path, file, order), order, draw(kind)) for path, file in named.items())
    )


def bounds(plan):
    return [(chunk.after, chunk.up_to) for chunk in plan.ranges]


RATE_LIMITS = st.integers(1, 12) | st.sampled_from([20, 39, 40, 41, 10**12])


@given(tables(), RATE_LIMITS)
def test_a_backfill_reads_every_row_once_under_its_rate_limit_and_ends(table, rate_limit):
    """
    I3 and I4: the rate limit is never exceeded, every chunk has a row, positions advance, and only a chunk into
    which all that is left fits has no upper bound.
    """
    read = []
    for plan, rows in table.chunks(rate_limit):
        assert len(rows) <= rate_limit
        assert len(rows) <= plan.rows <= rate_limit
        ((after, up_to),) = bounds(plan)
        if up_to is None:
            assert table.rows - len(read) <= rate_limit
        else:
            assert rows, "I4: every chunk advances by a row at least"
            assert after is None or table.order.compare(up_to, after) > 0
            assert table.rows - len(read) > rate_limit
        read += rows
    assert read == in_order([key for keys in table.keys.values() for key in keys], table.order)


@given(tables(), RATE_LIMITS, st.randoms(use_true_random=False))
@settings(max_examples=50)
def test_planners_agree_in_whatever_order_the_files_come(table, rate_limit, random):
    """I2: two planners of one upstream version pin the same chunk."""
    shuffled = random.sample(table.files, len(table.files))
    after = None
    for plan, _ in table.chunks(rate_limit):
        assert table.plan(after, rate_limit, shuffled) == plan
        ((_, after),) = bounds(plan)


@given(tables(), st.integers(0, 40), RATE_LIMITS)
@settings(max_examples=50)
def test_a_scan_continues_from_any_point_of_the_key_space(table, index, rate_limit):
    """Positions are no keys: their row may be deleted, and a rate limit may have changed in between."""
    everything = in_order([key for keys in table.keys.values() for key in keys], table.order)
    after = everything[index] if index < len(everything) else None
    without = {path: [key for key in keys if key != after] for path, keys in table.keys.items()}
    table = replace(table, keys=without)
    plan = table.plan(after, rate_limit)
    (chunk,) = plan.ranges
    rows = table.within(chunk)
    assert chunk.after == after
    assert len(rows) <= rate_limit
    assert rows or chunk.up_to is None
    assert chunk.up_to is None or after is None or table.order.compare(chunk.up_to, after) > 0


@given(tables(), st.none() | RATE_LIMITS)
@settings(max_examples=50)
def test_the_plan_counts_enough_files_and_rows_for_its_chunk(table, rate_limit):
    for plan, rows in table.chunks(rate_limit):
        chunk = set(rows)
        holding = [path for path, keys in table.keys.items() if chunk & set(keys)]
        assert plan.scanned_files >= len(holding)
        assert plan.scanned_rows >= len(rows)
        assert plan.scanned_rows <= table.rows


@given(tables(statistics=(EXACT,), layouts=("ordered",)), RATE_LIMITS)
@settings(max_examples=50)
def test_files_in_key_order_are_filled_to_nine_tenths_from_two_files(table, rate_limit):
    for plan, rows in table.chunks(rate_limit):
        index = ExactKeys(table.keys, table.order)
        ((after, up_to),) = bounds(plan)
        unread = [KeyRange(after, None)]
        choose_chunk(table.files, unread=unread, rate_limit=rate_limit, order=table.order, keys=index)
        if up_to is None:
            return
        assert math.ceil(0.9 * rate_limit) <= len(rows)
        # Bounds column by column are wider than the keys of a composite, so neighbours seem to overlap.
        if len(table.order.fields) == 1:
            assert len(index.read) <= 2


@pytest.mark.slow
@given(tables(statistics=(EXACT,)), st.floats(0, 1))
@settings(max_examples=120)
def test_exact_keys_fill_every_chunk_to_nine_tenths(table, share):
    """I4: finished within about rows ÷ rate limit epochs, whatever the files look like."""
    rate_limit = 1 + int(share * table.rows)
    for plan, rows in table.chunks(rate_limit):
        assert plan.completes or math.ceil(0.9 * rate_limit) <= len(rows)

"""Layouts of data files for tests of the planner."""

from __future__ import annotations

from airflow_backfill_provider.core.scan.file_statistics import FileStatistics
from airflow_backfill_provider.core.scan.keys import KeyRange
from airflow_backfill_provider.core.scan.next_chunk import choose_chunk, choose_parts
from tests.builders import ExactKeys, file_of, order_of

LONG = order_of("long")


class Layout:
    """Data files of a table, and planning over them."""

    def __init__(self, files, order=LONG, statistics=None):
        self.keys = {
            f"part-{i:03}": [key if isinstance(key, tuple) else (key,) for key in keys] for i, keys in enumerate(files)
        }
        self.order = order
        self.files = [file_of(path, keys, order) for path, keys in self.keys.items()]
        if statistics is not None:
            self.files = [statistics(file) for file in self.files]

    def plan(self, after, rate_limit, files=None):
        """Return the plan, the number of rows in its chunk, and how many files' keys were read for it."""
        index = ExactKeys(self.keys, self.order)
        plan = choose_chunk(
            self.files if files is None else files,
            unread=[KeyRange(after, None)],
            rate_limit=rate_limit,
            order=self.order,
            keys=index,
        )
        read = len(index.read)
        return plan, len(index.within(self.keys, *plan.ranges)), read

    def backfill(self, rate_limit):
        """Plan chunk after chunk to the end; return (rows, files read) of each."""
        after, chunks = None, []
        while True:
            plan, rows, read = self.plan(after, rate_limit)
            chunk = chunk_of(plan)
            assert chunk.after == after
            chunks.append((rows, read))
            assert plan.completes is (chunk.up_to is None)
            if plan.completes:
                return chunks
            assert after is None or self.order.compare(chunk.up_to, after) > 0
            after = chunk.up_to
            assert len(chunks) < 1000


def chunk_of(plan):
    """Return the one range of a plan."""
    (chunk,) = plan.ranges
    return chunk


def ordered(files, size, step=1):
    return [range(f * size * step, (f + 1) * size * step, step) for f in range(files)]


def leading(file):
    """Return the file as if the log had bounds of the leading column alone."""
    return FileStatistics(path=file.path, row_count=file.row_count, lower=file.lower[:1], upper=file.upper[:1])


def without_statistics(file):
    return FileStatistics(path=file.path, row_count=file.row_count, size=file.size)


def plan_of(layout, unread, rate_limit):
    """Plan over several ranges; return the plan and the number of rows in it."""
    index = ExactKeys(layout.keys, layout.order)
    plan = choose_chunk(layout.files, unread=unread, rate_limit=rate_limit, order=layout.order, keys=index)
    return plan, len(ExactKeys(layout.keys, layout.order).within(layout.keys, *plan.ranges))


BY_VNODE = order_of("integer", "long")


class Vnodes(Layout):
    """An arrangement of vnodes with the given numbers of rows, in files of ten rows."""

    def __init__(self, *rows):
        keys = [(vnode, i) for vnode, count in enumerate(rows) for i in range(count)]
        super().__init__([keys[start : start + 10] for start in range(0, len(keys), 10)], order=BY_VNODE)

    def parts(self, unread, rate_limit):
        """Plan for some task runs; return the plans, and the number of rows that each reads."""
        index = ExactKeys(self.keys, self.order)
        plans = choose_parts(self.files, unread=unread, rate_limit=rate_limit, order=self.order, keys=index)
        return plans, [len(ExactKeys(self.keys, self.order).within(self.keys, *plan.ranges)) for plan in plans]


def vnode(number, last=None):
    return KeyRange((number - 1,), (number if last is None else last,))

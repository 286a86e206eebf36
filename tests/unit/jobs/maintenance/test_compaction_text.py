"""A compaction in words: what it would do, and what it did."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.status.compaction import CompactionPlan, CompactionStep
from airflow_backfill_provider.jobs.maintenance.compaction import JobCompaction
from airflow_backfill_provider.jobs.maintenance.compaction_text import done_lines, look_lines


def plan_of(step=None, files=6, saved=5, share=0.0):
    return CompactionPlan(
        step=step, files=files, saved_files=saved, deleted_share=share, target_file_size=2**20, smaller_than=2**19
    )


def job_of(view, **own):
    return JobCompaction(view=view, own_tables=own)


@pytest.mark.parametrize(
    ("plan", "line"),
    [
        (plan_of(), "view: 6 files; not due: a compaction saves 5 files"),
        (plan_of(files=1, saved=0), "view: 1 file; not due: a compaction saves 0 files"),
        (plan_of(CompactionStep.COMPACT, files=1200, saved=1), "view: 1,200 files; due: a compaction saves 1 file"),
        (
            plan_of(CompactionStep.PURGE, share=0.25),
            "view: 6 files, 25.0 % of the rows deleted; due, to purge deleted rows",
        ),
        (plan_of(share=0.001), "view: 6 files, 0.1 % of the rows deleted; not due: a compaction saves 5 files"),
    ],
)
def test_a_plan_is_a_line(plan, line):
    assert list(look_lines(job_of(plan))) == [line]


def test_each_table_has_a_line_and_the_view_comes_first():
    lines = list(look_lines(job_of(plan_of(), arrangement=plan_of(CompactionStep.COMPACT))))
    assert [line.split(":")[0] for line in lines] == ["view", "arrangement"]


def test_the_result_names_the_tables_that_were_due():
    done = job_of(
        plan_of(CompactionStep.PURGE, share=0.25),
        arrangement=plan_of(CompactionStep.COMPACT, files=6, saved=4),
        other=plan_of(),
    )
    assert list(done_lines(done)) == [
        "view: deleted rows are purged, 25.0 % of the stored rows",
        "arrangement: 6 files became 2",
    ]


def test_the_result_says_if_nothing_was_due():
    assert list(done_lines(job_of(plan_of(), arrangement=plan_of()))) == ["nothing to compact"]

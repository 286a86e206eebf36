"""Mistakes in how the rows of tables that record no changes are compared."""

from __future__ import annotations

from faults.mutants.mutant import Mutant

_STAR = "tests/integration/engine/test_compared_tables.py::test_a_view_follows_tables_that_record_no_changes[star]"
_COMPARED = "airflow_backfill_provider/spark/different_rows.py"

MUTANTS = (
    Mutant(
        name="compared-rows-of-the-end-alone",
        breaks="A row that a compared table had only before the window leads to no row of the lead.",
        invariant="I1",
        file=_COMPARED,
        old="both = _counted(rows, after, -1).unionAll(_counted(rows, up_to, 1))",
        new="both = _counted(rows, up_to, 1)",
        killers=(_STAR,),
        spark=True,
    ),
    Mutant(
        name="compared-rows-once-each",
        breaks="A row that a compared table has twice from now on is not found, and neither is its ambiguous key.",
        invariant="I6",
        file=_COMPARED,
        old=".agg(F.sum(rows.own.named(_ADDED))",
        new=".agg(F.sum_distinct(rows.own.named(_ADDED))",
        killers=(_STAR,),
        spark=True,
    ),
    Mutant(
        name="compared-by-statistics",
        breaks="A table is compared as long as its statistics say that it is small.",
        invariant="I6",
        file="airflow_backfill_provider/sources/compared_rows.py",
        old="rows = None if files is None else files.counted(",
        new="rows = source.row_count(described.offset) if files is not None else files.counted(",
        killers=(("tests/unit/sources/test_compared_rows.py::test_more_rows_are_refused_whatever_the_statistics_say"),),
    ),
)

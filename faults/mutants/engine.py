"""Mistakes in running an epoch on Spark."""

from __future__ import annotations

from faults.mutants.killers import CATALOG_TABLES, EPOCHS, FOREIGN_HISTORY, SMALL_CHANGES, SPARK_SETTINGS
from faults.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        name="changes-of-unread-rows",
        breaks="Changes of rows that no chunk has read yet reach the view of an arrangement, and the chunk again.",
        invariant="I1",
        file="airflow_backfill_provider/engine/window_changes.py",
        old="net = self.applied(net)",
        new="pass",
        killers=(
            f"{EPOCHS}::test_mutations_between_the_epochs_of_one_task_run_take_effect_with_the_next_epoch[arrangement]",
        ),
        spark=True,
    ),
    Mutant(
        name="chunk-before-the-changes",
        breaks="A row that moves into another vnode's chunk is read there, and then deleted by its own change.",
        invariant="I1",
        file="airflow_backfill_provider/engine/epoch.py",
        old="""\
            self._take(changes_stages(self._barrier, counts_chunk=self._tables.reader.counts_before_changes))
            rows = self._write_parts()
""",
        new="""\
            rows = self._write_parts()
            self._take(changes_stages(self._barrier, counts_chunk=self._tables.reader.counts_before_changes))
""",
        killers=("tests/integration/engine/test_verification.py::test_a_row_of_a_vnode_that_was_not_read",),
        spark=True,
    ),
    Mutant(
        name="wide-changes-to-every-executor",
        breaks="A few thousand changes of a megabyte each are sent to every executor, as if they were small.",
        invariant="I6",
        file="airflow_backfill_provider/spark/small_changes.py",
        old="<= MOST_VALUES_SENT and value_bytes <= MOST_BYTES_SENT",
        new="<= MOST_VALUES_SENT",
        killers=(f"{SMALL_CHANGES}::test_changes_are_sent_to_every_executor_only_if_they_are_few_and_narrow",),
        spark=True,
    ),
    Mutant(
        name="written-batches-remembered",
        breaks="A task holds the last hundred batches of rows that it has written to disk.",
        invariant="I6",
        file="airflow_backfill_provider/applications/spark_settings.py",
        old="return {**_DELTA, **_PYTHON, **_MEMORY, **_S3,",
        new="return {**_DELTA, **_PYTHON, **_S3,",
        killers=(f"{SPARK_SETTINGS}::test_no_task_holds_a_hundred_batches_that_it_has_written_to_disk",),
    ),
    Mutant(
        name="key-in-two-vnodes",
        breaks="A key that the upstream has in two vnodes gets into the view twice.",
        invariant="I6",
        file="airflow_backfill_provider/engine/window_changes.py",
        old="must_be_single = repairs or self.rows.key_spans_vnodes or self.tables.writer.replaces_leads",
        new="must_be_single = repairs or self.tables.writer.replaces_leads",
        killers=(f"{FOREIGN_HISTORY}::test_one_key_in_two_vnodes_is_refused_whether_the_first_is_read_or_not",),
        spark=True,
    ),
    Mutant(
        name="name-of-another-table",
        breaks="An epoch goes on with the old files of an upstream whose name means another table.",
        invariant="I6",
        file="airflow_backfill_provider/engine/named_tables.py",
        old="if not (_is_same_place(found.location, upstream.location) and found.table_id == table_id):",
        new="if False:",
        killers=(f"{CATALOG_TABLES}::test_a_dropped_upstream_that_was_made_anew_elsewhere_is_refused_by_its_name",),
        spark=True,
    ),
    Mutant(
        name="view-under-a-foreign-name",
        breaks="A view whose name means another table is written on, and readers of the name see the other table.",
        invariant="I6",
        file="airflow_backfill_provider/engine/named_tables.py",
        old="if found is None or not _is_same_place(found.location, job.view_location):",
        new="if found is None:",
        killers=(
            f"{CATALOG_TABLES}::test_a_view_whose_name_means_another_table_is_refused_before_anything_is_written",
        ),
        spark=True,
    ),
)

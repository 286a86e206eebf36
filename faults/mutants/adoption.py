"""Mistakes in how an existing table becomes a view."""

from __future__ import annotations

from faults.mutants.killers import ADOPTABLE, ADOPTED_VIEWS, ADOPTION, ADOPTION_FIELDS, COPIED_FILES
from faults.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        name="changes-behind-the-adopted-point-begin-late",
        breaks="The first window of an adopted view begins one version late, so the changes of that version are lost.",
        invariant="I1",
        file="airflow_backfill_provider/jobs/adoption.py",
        old="    first_rows = first_rows_of(job, table, upstream.point(at), settings.upstream)\n",
        new="    at = Offset((at.number or 0) + 1)\n"
        "    first_rows = first_rows_of(job, table, upstream.point(at), settings.upstream)\n",
        killers=(f"{ADOPTION}::test_all_history_counts_as_read_as_of_the_adopted_version",),
    ),
    Mutant(
        name="adopted-rows-believed",
        breaks="A table becomes the view although it differs from the query.",
        invariant="I1",
        file="airflow_backfill_provider/jobs/adoption.py",
        old="    if found.differences and not wanted.repair:\n",
        new="    if False:\n",
        killers=(f"{ADOPTION}::test_a_table_that_differs_is_refused_with_its_keys_apart_from_the_message",),
    ),
    Mutant(
        name="adopted-history-is-read-again",
        breaks="The state of an adopted view begins without rows, so that history is read on top of them.",
        invariant="I1",
        file="airflow_backfill_provider/core/epoch/settings.py",
        old="ranges=(EVERYTHING,), rows={}) if self.adopted else state\n",
        new="ranges=(EVERYTHING,), rows={}) if False else state\n",
        killers=(f"{ADOPTION}::test_a_state_that_a_crash_prevented_is_the_same_one",),
    ),
    Mutant(
        name="a-sample-counts-as-all",
        breaks="Vnodes of an adopted view that nobody compared count as equal.",
        invariant="I6",
        file="airflow_backfill_provider/core/job/adoption.py",
        old="return self.compared == self.vnodes and not self.differing",
        new="return not self.differing",
        killers=(f"{ADOPTION_FIELDS}::test_a_sample_is_no_proof_of_equality",),
    ),
    Mutant(
        name="attempts-disagree-about-adopted-rows",
        breaks="An attempt after a verification refuses a key that an attempt before it accepted.",
        invariant="I2",
        file="airflow_backfill_provider/core/epoch/settings.py",
        old="is_known = 0 < self.equal_sequence <= barrier.settings_sequence",
        new="is_known = self.equal_sequence > 0",
        killers=(f"{ADOPTION}::test_keys_that_appear_may_be_there_until_a_verification_finds_all_vnodes_equal",),
    ),
    Mutant(
        name="adopted-differences-left",
        breaks="The first epoch of an adopted view does not repair what differed.",
        invariant="I1",
        file="airflow_backfill_provider/jobs/adoption.py",
        old='            "repair": repair,\n',
        new="",
        killers=(f"{ADOPTION}::test_the_first_epoch_repairs_what_differs_if_the_job_asks_for_it",),
    ),
    Mutant(
        name="clone-adopted",
        breaks="The view has data files of another table, whose VACUUM deletes them.",
        invariant="I6",
        file="airflow_backfill_provider/lake/tables/adoptable.py",
        old='return lies_outside(str(entry["path"])) or ',
        new="return ",
        killers=(f"{ADOPTABLE}::test_files_of_another_table_are_refused",),
    ),
    Mutant(
        name="partitions-copied",
        breaks="Files are copied byte by byte although the values of a column are in the log only.",
        invariant="I1",
        file="airflow_backfill_provider/lake/log/copied_files.py",
        old='entry.get("deletionVector") or partition_values(entry)',
        new='entry.get("deletionVector")',
        killers=(f"{COPIED_FILES}::test_files_without_all_columns_are_not_copied",),
    ),
    Mutant(
        name="write-during-an-adoption-unseen",
        breaks="What something else writes between the comparison and the adoption of a table stays in the view.",
        invariant="I6",
        file="airflow_backfill_provider/spark/adoption.py",
        old="        if commit is None or not (is_harmless(commit) or creates(commit, identity)):\n",
        new="        if commit is None:\n",
        killers=(f"{ADOPTED_VIEWS}::test_what_something_else_writes_while_a_table_is_adopted_is_found_and_repaired",),
        spark=True,
    ),
)

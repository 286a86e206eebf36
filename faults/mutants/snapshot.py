"""Mistakes of the strategy ``snapshot``."""

from __future__ import annotations

from faults.mutants.killers import NUMBERED_LOG, SNAPSHOT, SNAPSHOT_PLANNING
from faults.mutants.mutant import Mutant

_FOLDER = "airflow_backfill_provider/strategies/snapshot"

MUTANTS = (
    Mutant(
        name="window-moves-among-the-files",
        breaks="Windows move while files are read, and the changes in them are compared with places in files.",
        invariant="I1",
        file=f"{_FOLDER}/next_chunk.py",
        old="    if replay is None:\n        return after\n",
        new="    if replay is None:\n        return newest\n",
        killers=(f"{SNAPSHOT_PLANNING}::test_the_window_stays_at_the_pinned_version_until_all_files_are_read",),
    ),
    Mutant(
        name="finished-with-changes-left",
        breaks="The view is finished when the files are read, without the changes since.",
        invariant="I1",
        file=f"{_FOLDER}/next_chunk.py",
        old="is_present = inputs.offset == inputs.newest",
        new="is_present = True",
        killers=(f"{SNAPSHOT_PLANNING}::test_the_last_file_ends_the_backfill_only_if_nothing_has_changed_since",),
    ),
    Mutant(
        name="files-missing-from-the-list",
        breaks="A list of files that lacks some of the table's is written, and their rows are never read.",
        invariant="I6",
        file="airflow_backfill_provider/lake/log/numbered_log.py",
        old="if {*paths} != state.files.keys() or not (state.protocol and state.metadata):",
        new="if not (state.protocol and state.metadata):",
        killers=(f"{NUMBERED_LOG}::test_other_files_than_deltalake_finds_are_refused",),
    ),
    Mutant(
        name="one-file-too-many",
        breaks="A chunk that ends with a whole file reads the next one, too, which the next epoch reads again.",
        invariant="I1",
        file=f"{_FOLDER}/reader.py",
        old="return (number - 1,) if row == BEFORE_ROWS else position",
        new="return (number,) if row == BEFORE_ROWS else position",
        killers=(f"{SNAPSHOT}::test_files_are_read_in_the_order_of_the_log_and_the_log_is_replayed",),
        spark=True,
    ),
    Mutant(
        name="keys-of-files-not-checked",
        breaks="Rows with one key in different files are not noticed, and the view is finished with both.",
        invariant="I6",
        file=f"{_FOLDER}/reader.py",
        old="if not (barrier.completes and barrier.parts):",
        new="if True:",
        killers=(f"{SNAPSHOT}::test_keys_in_different_files_that_repeat_are_found_before_the_view_is_finished",),
        spark=True,
    ),
)

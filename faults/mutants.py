"""
Mistakes put into the package by hand, one at a time, each of which a test must find.

Each stands for a rule that epochs rest on: where a position ends, which version a window begins with, who may still
write. The mutated package is a copy of its own; the tests that are named as the mutant's killers run there, and one has
to fail. The first case of each size of tests changes nothing, and there they have to pass.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from docs.generated import table as markdown_table
from faults.campaign import Campaign, Outcome, WrongError

ROOT = Path(__file__).parents[1]
SOURCES = ("airflow_backfill_provider", "faults", "spark_apps", "tests")
PATIENCE = 600
"""Seconds that each test may take, on a machine that does other things, too."""

_PASSED, _FAILED = 0, 1
"""Exit codes of pytest; with any other one it ran no test, or not to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """
    One mistake.

    :param name: what it is called.
    :param breaks: what is wrong with it, in a sentence.
    :param invariant: the invariant that it breaks.
    :param file: the file that it is in.
    :param old: text that occurs in the file once.
    :param new: what stands there instead.
    :param killers: tests of which at least one fails.
    :param spark: whether these start Spark.
    """

    name: str
    breaks: str
    invariant: str
    file: str
    old: str
    new: str
    killers: tuple[str, ...]
    spark: bool = False

    def apply(self, root: Path) -> None:
        """Put the mistake into a copy of the sources."""
        file = root / self.file
        file.write_text(self.mutated(file.read_text(encoding="utf-8")), encoding="utf-8")

    def mutated(self, text: str) -> str:
        """
        Return the file's text with the mistake.

        :raises WrongError: if it isn't clear where it goes.
        """
        if text.count(self.old) != 1:
            raise WrongError(f"mutant {self.name}: its old text occurs {text.count(self.old)} times in {self.file}")
        return text.replace(self.old, self.new)


_KEYS = "tests/unit/core/test_keys.py"
_PLANNER = "tests/unit/core/test_planner.py"
_SNAPSHOT_PLAN = "tests/unit/strategies/test_chunk_plan.py"
_ROW_COUNTS = "tests/unit/lake/test_row_counts.py"
_HIDDEN_ROWS = "tests/unit/lake/test_hidden_rows.py"
_ARRANGEMENT = "tests/unit/strategies/arrangement/test_files.py"
_VNODES_OF_RUNS = "tests/unit/strategies/arrangement/test_planning.py"
_SPEED = "tests/unit/core/test_speed.py"
_VNODE_SCAN = "tests/unit/strategies/test_vnode_scan.py"
_NO_SHUFFLE_SCAN = "tests/unit/strategies/test_no_shuffle_scan.py"
_REBUILDS = "tests/unit/protocol/test_creation_rebuilds.py"
_RUN_CRASHES = "tests/unit/protocol/test_run_crashes.py"
_RUN_SHARED = "tests/unit/protocol/test_run_shared.py"
_STORE = "tests/unit/state/test_store.py"
_STAMPED_TABLE = "tests/integration/engine/test_stamped_table.py"
_EPOCHS = "tests/integration/engine/test_epochs.py"
_SUSPECT = "tests/integration/engine/test_suspect_statistics.py"
_PREDICATES = "tests/integration/engine/test_predicates.py"
_CRASHES = "tests/integration/engine/test_crash_points.py"
_BARRIER = "tests/unit/core/test_barrier.py"
_INJECT = "tests/unit/protocol/test_inject.py"
_INJECT_REFUSALS = "tests/unit/protocol/test_inject_refusals.py"
_INJECT_WAITING = "tests/unit/protocol/test_inject_waiting.py"
_STAMPED = "tests/integration/engine/test_stamped_table.py"
_GIVING_UP = "tests/integration/engine/test_giving_up.py"
_HISTORY = "tests/integration/engine/test_foreign_history.py"

MUTANTS = (
    # --- keys and positions ---
    Mutant(
        name="position-excluded",
        breaks="The row at the position itself counts as not read yet.",
        invariant="I1",
        file="airflow_backfill_provider/core/keys.py",
        old="order.compare(key, self.up_to) <= 0",
        new="order.compare(key, self.up_to) < 0",
        killers=(f"{_KEYS}::test_a_range_is_half_open_and_a_shorter_bound_stands_for_all_keys_that_begin_with_it",),
    ),
    Mutant(
        name="begin-included",
        breaks="A chunk begins with the row that the one before ended with, which is then read twice.",
        invariant="I1",
        file="airflow_backfill_provider/core/keys.py",
        old="order.compare(key, self.after) > 0",
        new="order.compare(key, self.after) >= 0",
        killers=(f"{_KEYS}::test_a_range_is_half_open_and_a_shorter_bound_stands_for_all_keys_that_begin_with_it",),
    ),
    Mutant(
        name="nulls-last",
        breaks="Null keys come last, while storage has them first.",
        invariant="I1",
        file="airflow_backfill_provider/core/keys.py",
        old="return -1 if mine is None else 1",
        new="return 1 if mine is None else -1",
        killers=(f"{_KEYS}::test_values_are_ordered_as_in_storage_with_nulls_first",),
    ),
    # --- the chunk and the state ---
    Mutant(
        name="chunk-one-row-too-long",
        breaks="A chunk that is cut inside a file has a row more than the rate limit.",
        invariant="I4",
        file="airflow_backfill_provider/core/planner.py",
        old="key = _nth_key(rest, counts, within, rate_limit, order, keys)",
        new="key = _nth_key(rest, counts, within, rate_limit + 1, order, keys)",
        killers=(f"{_PLANNER}::test_a_rate_limit_of_one_reads_one_row_after_the_other",),
    ),
    Mutant(
        name="rows-left-over",
        breaks="With fewer rows to read than runs, no run reads one: the job never ends.",
        invariant="I4",
        file="airflow_backfill_provider/core/planner.py",
        old="run: share + (place < odd) for place, run in enumerate(hungry)",
        new="run: share for place, run in enumerate(hungry)",
        killers=(f"{_PLANNER}::test_a_rate_limit_below_the_number_of_runs_leaves_some_without_a_part",),
    ),
    Mutant(
        name="estimate-taken-for-a-count",
        breaks="A file of which nobody knows how many rows are the job's counts as if that were known.",
        invariant="I4",
        file="airflow_backfill_provider/core/planner.py",
        old="return file.row_count if file.is_exact and lies_within",
        new="return file.row_count if lies_within",
        killers=(f"{_SNAPSHOT_PLAN}::test_rows_of_some_vnodes_that_lie_far_apart_leave_no_epoch_without_rows",),
    ),
    Mutant(
        name="window-unseen",
        breaks="A chunk of an arrangement is planned without what the window changes before it is read.",
        invariant="I4",
        file="airflow_backfill_provider/strategies/arrangement/planning.py",
        old="coming = upstream.window_changes(settings, from_offset, offset) if counts else None",
        new="coming = None",
        killers=(
            f"{_SNAPSHOT_PLAN}::test_rows_that_one_window_inserts_into_one_vnode_do_not_make_its_chunk_larger",
            f"{_SNAPSHOT_PLAN}::test_a_window_that_deletes_what_comes_next_leaves_no_epoch_without_rows",
        ),
    ),
    Mutant(
        name="no-room-for-unknown-inserts",
        breaks="A chunk leaves no room for rows that its window inserts, where nobody knows which.",
        invariant="I4",
        file="airflow_backfill_provider/strategies/arrangement/planning.py",
        old="return max(rate_limit * rows_before // rows_after, 1)",
        new="return rate_limit",
        killers=(f"{_SNAPSHOT_PLAN}::test_a_window_of_unknown_inserts_leaves_room_for_them",),
    ),
    Mutant(
        name="room-for-inserts-alone",
        breaks="A window of many inserts leaves no row to be read: the epoch is refused, or the job never ends.",
        invariant="I4",
        file="airflow_backfill_provider/strategies/arrangement/planning.py",
        old="return max(rate_limit * rows_before // rows_after, 1)",
        new="return rate_limit * rows_before // rows_after",
        killers=(f"{_SNAPSHOT_PLAN}::test_however_many_rows_a_window_inserts_one_is_read",),
    ),
    Mutant(
        name="rescale-ignored",
        breaks="Vnodes stay with the runs of the parallelism before, as long as enough of these have work.",
        invariant="I4",
        file="airflow_backfill_provider/strategies/arrangement/planning.py",
        old="if previous is not None and previous.parallelism == settings.parallelism:",
        new="if previous is not None:",
        killers=(f"{_VNODES_OF_RUNS}::test_another_parallelism_divides_the_vnodes_anew",),
    ),
    Mutant(
        name="changes-anywhere-in-a-vnode",
        breaks="The files of a vnode share its changed rows, wherever these lie.",
        invariant="I4",
        file="airflow_backfill_provider/strategies/arrangement/files.py",
        old="row_count=max(file.row_count - (rows - shared), 0)",
        new="row_count=max(file.row_count - in_base.num_rows // len(base), 0)",
        killers=(f"{_ARRANGEMENT}::test_a_row_that_changed_is_taken_off_the_file_that_it_lies_in",),
    ),
    Mutant(
        name="missing-count-is-none",
        breaks="A file whose rows the log does not count has none.",
        invariant="I4",
        file="airflow_backfill_provider/lake/row_counts.py",
        old="return file.rows is not None and 0 < file.rows <= file.size * MOST_ROWS_PER_BYTE",
        new="return True",
        killers=(f"{_ROW_COUNTS}::test_a_count_that_is_missing_or_cannot_be_is_the_files_own",),
    ),
    Mutant(
        name="hidden-rows-planned",
        breaks="Rows that a deletion vector hides are planned for.",
        invariant="I4",
        file="airflow_backfill_provider/lake/data_files.py",
        old="return stored._replace(rows=stored.rows - hidden)",
        new="return stored",
        killers=(f"{_HIDDEN_ROWS}::test_rows_that_a_deletion_vector_hides_are_none",),
    ),
    Mutant(
        name="hidden-keys-counted",
        breaks="Keys of rows that a deletion vector hides are read as if the rows were there.",
        invariant="I4",
        file="airflow_backfill_provider/lake/chunk_keys.py",
        old="mask = self._masks.get(file.path) if file.hidden_rows or not file.is_exact else None",
        new="mask = None",
        killers=(f"{_SNAPSHOT_PLAN}::test_rows_that_deletion_vectors_hide_are_not_planned_for",),
    ),
    Mutant(
        name="pause-counts-as-reading",
        breaks="The time that is left is told as if the job were paused as often as it was.",
        invariant="I4",
        file="airflow_backfill_provider/core/speed.py",
        old="if commit.epoch in before and not _was_resumed(by_epoch[commit.epoch])",
        new="if commit.epoch in before",
        killers=(f"{_SPEED}::test_a_pause_counts_for_nothing",),
    ),
    Mutant(
        name="plan-completes-too-early",
        breaks="A chunk that is cut inside the last range counts as all that is left.",
        invariant="I1",
        file="airflow_backfill_provider/core/planner.py",
        old="completes = len(chunk) == len(unread) and (not chunk or chunk[-1] == unread[-1])",
        new="completes = len(chunk) == len(unread)",
        killers=(f"{_PLANNER}::test_the_last_chunk_may_be_smaller_but_not_larger",),
    ),
    Mutant(
        name="vnode-completes-too-early",
        breaks="A vnode whose chunk ends within it is Completed, and the rest of it is never read.",
        invariant="I1",
        file="airflow_backfill_provider/strategies/vnode_scan.py",
        old="ends_within = read.up_to is not None and read.up_to[0] == vnode and len(read.up_to) > 1",
        new="ends_within = False",
        killers=(f"{_VNODE_SCAN}::test_a_vnode_completes_alone",),
    ),
    Mutant(
        name="not-started-lets-changes-through",
        breaks="Changes of rows that no chunk has read yet are let through before the first one.",
        invariant="I1",
        file="airflow_backfill_provider/strategies/no_shuffle_scan.py",
        old="            case NotStarted():\n                return ()\n",
        new="            case NotStarted():\n                return (KeyRange(None, None),)\n",
        killers=(f"{_NO_SHUFFLE_SCAN}::test_a_new_job_has_started_no_vnode",),
    ),
    Mutant(
        name="progress-goes-back",
        breaks="Nobody looks whether a state goes back.",
        invariant="I3",
        file="airflow_backfill_provider/core/progress.py",
        old="if old is not new and not _is_successor(old, new, order):",
        new="if old is new and not _is_successor(old, new, order):",
        killers=("tests/unit/core/test_progress.py::test_a_vnode_only_moves_forward",),
    ),
    # --- the protocol ---
    Mutant(
        name="window-one-version-late",
        breaks="A window begins a version behind the one that it continues, whose changes are lost.",
        invariant="I1",
        file="airflow_backfill_provider/protocol/decision.py",
        old="return previous.upstream.to_offset if previous else settings.first_offset",
        new="return Offset(previous.upstream.to_offset.number + 1) if previous else settings.first_offset",
        killers=("tests/unit/protocol/test_inject.py::test_the_next_barrier_continues_where_the_one_before_ended",),
    ),
    Mutant(
        name="state-counted-twice",
        breaks="An epoch that died behind the commit of its state counts its rows again.",
        invariant="I2",
        file="airflow_backfill_provider/protocol/epoch_run.py",
        old="if state.epoch < barrier.epoch:",
        new="if state.epoch <= barrier.epoch:",
        killers=(f"{_RUN_CRASHES}::test_an_epoch_that_died_anywhere_is_completed_by_the_next_run",),
    ),
    Mutant(
        name="part-before-the-changes",
        breaks="A part of a shared epoch is read before its changes are applied.",
        invariant="I1",
        file="airflow_backfill_provider/protocol/run.py",
        old="if None not in reported:",
        new="if part in reported:",
        killers=(f"{_RUN_SHARED}::test_a_part_before_the_changes_is_refused",),
    ),
    Mutant(
        name="stale-incarnation-accepted",
        breaks="An epoch that was pinned before a rebuild is run into the rebuilt view.",
        invariant="I5",
        file="airflow_backfill_provider/protocol/epoch_run.py",
        old="if barrier.incarnation != settings.incarnation:",
        new="if not barrier.incarnation:",
        killers=(f"{_REBUILDS}::test_a_barrier_from_before_a_rebuild_is_refused_and_the_next_one_is_a_new_one",),
    ),
    Mutant(
        name="second-pin-wins",
        breaks="A second injector pins its own barrier for an epoch that has one.",
        invariant="I2",
        file="airflow_backfill_provider/state/store.py",
        old="""\
            if barrier.epoch in known:
                pinned = known[barrier.epoch]
                return None
            newest = max(known, default=0)
            if newest != barrier.prev_epoch:
""",
        new="""\
            newest = max(known, default=0)
            if newest not in {barrier.prev_epoch, barrier.epoch}:
""",
        killers=(f"{_STORE}::test_pinning_an_epoch_again_returns_the_barrier_that_the_log_holds",),
    ),
    Mutant(
        name="second-commit-wins",
        breaks="A second commit of an epoch is recorded beside the first one.",
        invariant="I5",
        file="airflow_backfill_provider/state/store.py",
        old="return None if earlier else Write(row)",
        new="return Write(row)",
        killers=(f"{_STORE}::test_the_first_commit_of_an_epoch_wins",),
    ),
    Mutant(
        name="state-written-again",
        breaks="A zombie writes the state of an epoch that is there.",
        invariant="I5",
        file="airflow_backfill_provider/state/store.py",
        old="if committed.epoch >= state.epoch:",
        new="if committed.epoch > state.epoch:",
        killers=(f"{_STORE}::test_a_state_of_the_same_or_an_earlier_epoch_is_a_no_op",),
    ),
    Mutant(
        name="first-row-not-checked",
        breaks="The first row of a control table may be one that a stranger edited.",
        invariant="I6",
        file="airflow_backfill_provider/state/stamps.py",
        old="if index >= 0:",
        new="if index > 0:",
        killers=("tests/unit/state/test_stamps.py::test_every_value_of_a_type_has_a_checksum_of_its_own",),
    ),
    Mutant(
        name="verified-by-count",
        breaks="A verification compares numbers of rows, and not what is in them.",
        invariant="I6",
        file="airflow_backfill_provider/core/differences.py",
        old="expected.get(vnode, NO_ROWS) != found.get(vnode, NO_ROWS)",
        new="expected.get(vnode, NO_ROWS).rows != found.get(vnode, NO_ROWS).rows",
        killers=("tests/unit/core/test_differences.py::test_each_part_of_a_checksum_counts",),
    ),
    # --- what others have done meanwhile ---
    Mutant(
        name="older-copy-of-the-upstream",
        breaks="An upstream that was put back from an older copy, and written on, is read as if it had gone on.",
        invariant="I6",
        file="airflow_backfill_provider/protocol/inject.py",
        old="        upstream.require_same_history(basis.come_to)\n",
        new="        pass\n",
        killers=(f"{_INJECT}::test_an_upstream_that_was_put_back_from_an_older_copy_is_refused",),
    ),
    Mutant(
        name="arranged-of-another-history",
        breaks="The first epoch goes on from an arrangement of versions that the upstream does not have any more.",
        invariant="I6",
        file="airflow_backfill_provider/protocol/decision.py",
        old="return previous.upstream.come_to if previous else settings.start",
        new="return previous.upstream.come_to if previous else None",
        killers=(
            f"{_INJECT_REFUSALS}::test_an_arrangement_of_a_history_that_was_taken_back_is_refused_before_its_first_epoch",
        ),
    ),
    Mutant(
        name="cancelled-epoch-left-half-done",
        breaks="A job that is cancelled between two writes of an epoch leaves a view that is as of no version.",
        invariant="I1",
        file="airflow_backfill_provider/protocol/inject.py",
        old="if previous is not None and commit is None:",
        new="if previous is not None and commit is None and not settings.cancelled:",
        killers=(f"{_INJECT_REFUSALS}::test_what_is_pinned_of_a_cancelled_job_is_done_first",),
    ),
    Mutant(
        name="older-copy-of-the-view",
        breaks="A view that was put back from an older copy is gone on with, without the rows that came since.",
        invariant="I6",
        file="airflow_backfill_provider/engine/stamped_table.py",
        old="if newest.version < since.version:",
        new="if False:",
        killers=("tests/unit/engine/test_view.py::test_a_view_from_an_older_copy_is_refused",),
    ),
    Mutant(
        name="copy-of-the-view-that-was-written-on",
        breaks="A view that was put back from an older copy passes once it has as many versions.",
        invariant="I6",
        file="airflow_backfill_provider/engine/stamped_table.py",
        old="if None not in (written_at, since.written_at) and written_at != since.written_at:",
        new="if False:",
        killers=(f"{_STAMPED}::test_a_table_goes_on_from_where_the_previous_epoch_left_it",),
    ),
    Mutant(
        name="cleaned-up-log-believed",
        breaks="What was written to a view in versions that its log lacks is taken for the job's own.",
        invariant="I6",
        file="airflow_backfill_provider/engine/stamped_table.py",
        old="if since is None or oldest > since.version + 1:",
        new="if False:",
        killers=(f"{_STAMPED}::test_versions_behind_the_previous_epoch_that_were_cleaned_up_are_refused",),
    ),
    Mutant(
        name="session-as-it-is",
        breaks="A cluster that skips files that are gone loses their rows without a word.",
        invariant="I6",
        file="airflow_backfill_provider/engine/session.py",
        old="        if found.get(name) != value:\n",
        new="        if False:\n",
        killers=(
            "tests/unit/engine/test_session.py::test_what_a_result_depends_on_is_pinned_whatever_the_session_had",
        ),
    ),
    # --- the log of the view, read without a JVM ---
    Mutant(
        name="own-write-not-found",
        breaks="The search for an epoch's write ends at another part of the same epoch, and it is written twice.",
        invariant="I2",
        file="airflow_backfill_provider/engine/stamps.py",
        old='return int(str(stamp["epoch"])) < barrier.epoch',
        new='return int(str(stamp["epoch"])) <= barrier.epoch',
        killers=(f"{_STAMPED_TABLE}::test_a_part_is_found_behind_other_parts_of_its_epoch",),
    ),
    Mutant(
        name="another-plan-believed",
        breaks="A write of the epoch from another plan than the pinned one is taken for its own.",
        invariant="I5",
        file="airflow_backfill_provider/engine/stamped_table.py",
        old='elif stamp.get("digest") == barrier.digest:',
        new='elif "digest" in stamp:',
        killers=(f"{_STAMPED_TABLE}::test_a_write_of_the_epoch_from_another_plan_is_refused",),
    ),
    # --- changes that wait ---
    Mutant(
        name="last-chunk-at-an-older-version",
        breaks="The epoch that publishes reads its chunk at the version of those before: what changed since is lost.",
        invariant="I1",
        file="airflow_backfill_provider/protocol/inject.py",
        old="        if not basis.completes(plan):\n            return plan, resting\n",
        new="        return plan, resting\n",
        killers=(f"{_INJECT_WAITING}::test_chunks_are_read_at_one_version_while_changes_wait",),
    ),
    Mutant(
        name="chunk-as-of-the-window",
        breaks="A chunk that was read at an older version counts as read at the window's end.",
        invariant="I1",
        file="airflow_backfill_provider/core/barrier.py",
        old="reads[self.chunk_offset] = _joined((*reads.get(self.chunk_offset, ()), *chunk))",
        new="reads[self.upstream.to_offset] = _joined((*reads.get(self.upstream.to_offset, ()), *chunk))",
        killers=(f"{_BARRIER}::test_chunks_read_at_one_version_are_together",),
    ),
    # --- Spark ---
    Mutant(
        name="spark-position-excluded",
        breaks="On Spark, the row at the position itself lies behind it.",
        invariant="I1",
        file="airflow_backfill_provider/engine/predicates.py",
        old="_column(field) <= literal(field, bound)",
        new="_column(field) < literal(field, bound)",
        killers=(f"{_PREDICATES}::test_a_value_is_that_of_the_range_that_the_key_lies_in",),
        spark=True,
    ),
    Mutant(
        name="spark-nulls-nowhere",
        breaks="On Spark, null keys lie before no position, so no chunk has them.",
        invariant="I1",
        file="airflow_backfill_provider/engine/predicates.py",
        old="return column.isNull() | (column > point if field.descending else column < point)",
        new="return column > point if field.descending else column < point",
        killers=(f"{_PREDICATES}::test_a_value_is_that_of_the_range_that_the_key_lies_in",),
        spark=True,
    ),
    Mutant(
        name="preimage-ignored",
        breaks="A row whose key changed stays in the view under its old key, too.",
        invariant="I1",
        file="airflow_backfill_provider/engine/net_changes.py",
        old="feed = rows.changes(after, up_to).filter(wanted)\n    keys",
        new="feed = rows.changes(after, up_to).filter(wanted & ~F.col(rows.change_type).contains('pre'))\n    keys",
        killers=(f"{_EPOCHS}::test_row_that_moves_from_behind_the_position_into_the_chunk_is_read_once",),
        spark=True,
    ),
    Mutant(
        name="delete-wins-inside-a-version",
        breaks="Of two rows that swap their keys in one version both are deleted.",
        invariant="I1",
        file="airflow_backfill_provider/engine/net_changes.py",
        old="partitionBy(*scanned).orderBy(offset, upsert)",
        new="partitionBy(*scanned).orderBy(offset, upsert.desc())",
        killers=(f"{_EPOCHS}::test_swapped_keys_inside_one_version_keep_both_rows",),
        spark=True,
    ),
    Mutant(
        name="doubles-of-a-window",
        breaks="Of two rows with one key that two versions of a window insert, one is lost.",
        invariant="I6",
        file="airflow_backfill_provider/engine/net_changes.py",
        old="was_upsert.eqNullSafe(upsert)",
        new="F.lit(False)",
        killers=("tests/integration/engine/test_bad_input.py::test_duplicate_key_in_one_window_is_refused",),
        spark=True,
    ),
    Mutant(
        name="oldest-version-wins",
        breaks="Of several changes of a key the first one reaches the view.",
        invariant="I1",
        file="airflow_backfill_provider/engine/net_changes.py",
        old='own.named("is_last"): F.lead(F.lit(1)).over(in_order).isNull(),',
        new='own.named("is_last"): F.lag(F.lit(1)).over(in_order).isNull(),',
        killers=(f"{_EPOCHS}::test_view_is_the_query_at_every_epoch_while_the_upstream_changes",),
        spark=True,
    ),
    Mutant(
        name="changes-of-unread-rows",
        breaks="Changes of rows that no chunk has read yet reach the view of an arrangement, and the chunk again.",
        invariant="I1",
        file="airflow_backfill_provider/execution/epoch.py",
        old="net=self._net.filter(self._visible),",
        new="net=self._net,",
        killers=(f"{_EPOCHS}::test_what_is_asked_for_between_the_epochs_of_one_run_is_in_the_next[arrangement]",),
        spark=True,
    ),
    Mutant(
        name="chunk-before-the-changes",
        breaks="A row that moves into another vnode's chunk is read there, and then deleted by its own change.",
        invariant="I1",
        file="airflow_backfill_provider/execution/epoch.py",
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
        name="transaction-dropped",
        breaks="A chunk is appended without a transaction id, so that Delta writes it for every attempt.",
        invariant="I5",
        file="airflow_backfill_provider/engine/stamped_table.py",
        old="""\
                .option("txnAppId", transaction_id(identity, part))
                .option("txnVersion", barrier.epoch)
""",
        new="",
        killers=(f"{_CRASHES}::test_second_run_overtakes_the_first",),
        spark=True,
    ),
    Mutant(
        name="fence-of-another-epoch",
        breaks="A part of an epoch that is given up stays free for an attempt that slept.",
        invariant="I5",
        file="airflow_backfill_provider/engine/stamped_table.py",
        old="self._write_nothing(transaction_id(identity, part), barrier.epoch, stamp)",
        new="self._write_nothing(transaction_id(identity, part), barrier.prev_epoch, stamp)",
        killers=(f"{_GIVING_UP}::test_giving_up_that_died_is_completed",),
        spark=True,
    ),
    Mutant(
        name="given-up-though-written",
        breaks="A window that was applied is given up, and its changes are merged into what has them already.",
        invariant="I1",
        file="airflow_backfill_provider/protocol/give_up.py",
        old="applied = bool(written) or None in run.reported() or not run.engine.fence_changes(settings, barrier)",
        new="applied = run.engine.fence_changes(settings, barrier) and False",
        killers=("tests/unit/protocol/test_give_up_crashes.py::test_what_an_attempt_wrote_before_the_fence_stays",),
    ),
    Mutant(
        name="fence-too-low",
        breaks="A rebuild leaves room for writes of the incarnation before.",
        invariant="I5",
        file="airflow_backfill_provider/engine/stamped_table.py",
        old="_FENCE = 2**62",
        new="_FENCE = 0",
        killers=(f"{_CRASHES}::test_zombie_wakes_up_after_a_rebuild",),
        spark=True,
    ),
    Mutant(
        name="stranger-not-seen",
        breaks="A view that somebody else wrote to is taken for the job's own.",
        invariant="I6",
        file="airflow_backfill_provider/engine/stamped_table.py",
        old="if not (is_ours(commit, identity, barrier, since) or is_harmless(commit)):",
        new="if not (_is_ours(commit, identity, barrier, since) or commit.changes_data):",
        killers=("tests/integration/engine/test_bad_input.py::test_view_written_by_a_stranger",),
        spark=True,
    ),
    Mutant(
        name="arrangement-believed",
        breaks="Chunks are read from an arrangement that somebody else wrote to.",
        invariant="I6",
        file="airflow_backfill_provider/strategies/arrangement/table.py",
        old="        self._table.require_untouched(self._identity, barrier, since)\n",
        new="",
        killers=(f"{_HISTORY}::test_an_arrangement_that_something_else_wrote_to_is_refused",),
        spark=True,
    ),
    Mutant(
        name="key-in-two-vnodes",
        breaks="A key that the upstream has in two vnodes gets into the view twice.",
        invariant="I6",
        file="airflow_backfill_provider/execution/epoch.py",
        old="must_be_single = self._tables.settings.repairs_view(barrier) or rows.key_spans_vnodes",
        new="must_be_single = self._tables.settings.repairs_view(barrier)",
        killers=(f"{_HISTORY}::test_one_key_in_two_vnodes_is_refused_whether_the_first_is_read_or_not",),
        spark=True,
    ),
    Mutant(
        name="chunk-at-another-version",
        breaks="The engine reads each chunk at the window's end, whatever is pinned.",
        invariant="I2",
        file="airflow_backfill_provider/strategies/in_place_reader.py",
        old="self._context.rows_at(barrier.chunk_offset)",
        new="self._context.rows_at(barrier.upstream.to_offset)",
        killers=(f"{_EPOCHS}::test_changes_wait_for_the_epoch_that_finishes_the_view",),
        spark=True,
    ),
    Mutant(
        name="statistics-believed",
        breaks="What a reader finds by the statistics of files is taken for all that there is.",
        invariant="I6",
        file="airflow_backfill_provider/strategies/in_place_reader.py",
        old="if found.count and found.count in bounds and not is_last:",
        new="if True:",
        killers=(f"{_SUSPECT}::test_a_file_with_wrong_bounds_loses_no_row",),
        spark=True,
    ),
    Mutant(
        name="finished-by-its-own-count",
        breaks="A view counts as complete although its epochs read fewer rows than there are.",
        invariant="I6",
        file="airflow_backfill_provider/engine/row_account.py",
        old="if there != rows_present:",
        new="if False:",
        killers=(f"{_SUSPECT}::test_rows_that_earlier_epochs_missed_keep_the_view_from_being_finished",),
        spark=True,
    ),
    Mutant(
        name="added-rows-not-counted",
        breaks="What changes add to the rows that were read is not counted, so what is missing is not known.",
        invariant="I6",
        file="airflow_backfill_provider/core/barrier.py",
        old="return None if before is None else before + chunk + added",
        new="return None if before is None else before + chunk",
        killers=("tests/unit/protocol/test_run.py::test_rows_that_are_there_are_counted_on_from_epoch_to_epoch",),
    ),
    Mutant(
        name="rounded-decimals-compared",
        breaks="A condition on decimals lets readers skip files by bounds that were rounded.",
        invariant="I1",
        file="airflow_backfill_provider/engine/predicates.py",
        old="return unskipped(condition) if any(map(_is_rounded, order.fields)) else condition",
        new="return condition",
        killers=(f"{_SUSPECT}::test_rounded_bounds_of_decimals_hide_no_row",),
        spark=True,
    ),
    Mutant(
        name="null-keys-plainly-compared",
        breaks="A merge compares keys that may be null as if none was.",
        invariant="I1",
        file="airflow_backfill_provider/engine/view.py",
        old="{'<=>' if nulls else '='}",
        new="=",
        killers=(f"{_EPOCHS}::test_one_row_with_a_null_key",),
        spark=True,
    ),
)


@dataclass(frozen=True, slots=True)
class Case:
    """
    What is tried.

    :param killers: the tests that are run.
    :param mutant: the mistake that they must find; without one, they must pass.
    """

    killers: tuple[str, ...]
    mutant: Mutant | None = None


def _cases(mutants: Sequence[Mutant]) -> list[Case]:
    killers = dict.fromkeys(killer for mutant in mutants for killer in mutant.killers)
    return [Case(tuple(killers)), *(Case(mutant.killers, mutant) for mutant in mutants)]


QUICK = _cases([mutant for mutant in MUTANTS if not mutant.spark])
"""Those whose killers start no Spark."""

CASES = [*QUICK, *_cases([mutant for mutant in MUTANTS if mutant.spark])]


def copy_sources(to: Path) -> None:
    """Copy what the tests need, and nothing that was made of it."""
    for name in SOURCES:
        shutil.copytree(ROOT / name, to / name, ignore=shutil.ignore_patterns(".*", "__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", to)


def run_tests(root: Path, tests: Sequence[str]) -> tuple[int, str]:
    """Run tests on the sources in a folder; return pytest's exit code, and what it wrote."""
    plugins = ("no:randomly", "no:cacheprovider", "faults.mutated_package")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-q", *(part for name in plugins for part in ("-p", name)), *tests],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE * len(tests),
        check=False,
    )
    return done.returncode, done.stdout


def play(number: int, _: random.Random) -> Outcome:
    """Try one mutant, or none."""
    case = CASES[number % len(CASES)]
    with tempfile.TemporaryDirectory(prefix="backfill-mutant-") as folder:
        root = Path(folder)
        copy_sources(root)
        if case.mutant is not None:
            case.mutant.apply(root)
        code, written = run_tests(root, case.killers)
    if case.mutant is None:
        if code != _PASSED:
            raise WrongError(f"without a mutant, its killers end with exit code {code}:\n{written[-2000:]}")
        return Outcome(checks=len(case.killers), about="nothing was changed")
    if code != _FAILED:
        told = "no killer failed" if code == _PASSED else f"exit code {code}"
        raise WrongError(f"{case.mutant.name}: {told}:\n{written[-2000:]}")
    failed = next((line for line in written.splitlines() if line.startswith(("FAILED", "ERROR"))), "")
    return Outcome("caught", about=f"{case.mutant.name}: {failed[:300]}")


def table() -> str:
    """Return the mutants and their killers as a table."""
    return markdown_table(
        ["mutant", "what is wrong with it", "breaks", "in", "found by"],
        [
            (
                f"`{mutant.name}`",
                mutant.breaks,
                mutant.invariant,
                f"`{mutant.file.removeprefix('airflow_backfill_provider/')}`",
                ", ".join(f"`{killer.removeprefix('tests/')}`" for killer in mutant.killers),
            )
            for mutant in MUTANTS
        ],
    )


CAMPAIGN = Campaign(
    name="mutants",
    about="the package with one mistake, made by hand: the tests that stand for it must fail",
    quick=len(QUICK),
    full=len(CASES),
    checks="tests",
    stage=lambda: nullcontext(play),
)

"""Mistakes in what a job with several upstreams does."""

from __future__ import annotations

from faults.mutants.mutant import Mutant

WINDOWS = "tests/unit/protocol/test_other_windows.py"
WINDOWS_MODULE = "airflow_backfill_provider/protocol/window_ends.py"
SPARK = "tests/integration/engine/test_several_upstreams.py"

MUTANTS = (
    Mutant(
        name="idle-while-a-dimension-changes",
        breaks="An epoch has nothing to do if only another upstream than the lead changed.",
        invariant="I1",
        file="airflow_backfill_provider/protocol/inject.py",
        old="others.changed or upstream.has_changes(after, described.offset)",
        new="upstream.has_changes(after, described.offset)",
        killers=(f"{WINDOWS}::test_an_epoch_in_which_only_another_table_changed_is_not_idle",),
    ),
    Mutant(
        name="windows-end-at-their-newest-offsets",
        breaks="The window of another upstream ends at its newest offset, whatever the instant of the others.",
        invariant="I1",
        file="airflow_backfill_provider/jobs/diamonds.py",
        old="since, newest = self.since.get(name, BEGINNING), source.offset_at(instant)",
        new="since, newest = self.since.get(name, BEGINNING), source.latest()",
        killers=(f"{WINDOWS}::test_all_windows_end_at_the_clocks_instant",),
    ),
    Mutant(
        name="an-instant-in-the-future",
        breaks="Logs that are read one after the other are looked at as of an instant that is still to come.",
        invariant="I1",
        file=WINDOWS_MODULE,
        old="return now if until is None else min(until, now)",
        new="return now if until is None else until",
        killers=(f"{WINDOWS}::test_all_windows_end_at_the_instant_that_is_asked_for",),
    ),
    Mutant(
        name="other-windows-do-not-wait",
        breaks="While history is read at the versions of the job's creation, other upstreams are read at newer ones.",
        invariant="I1",
        file=WINDOWS_MODULE,
        old="if self.inputs.strategy.ends_windows and",
        new="if False and",
        killers=(f"{WINDOWS}::test_windows_wait_where_the_job_began_while_history_is_read_by_files",),
    ),
    Mutant(
        name="instant-of-the-clock-in-a-replay",
        breaks="While changes are replayed in steps, other upstreams are read as of now.",
        invariant="I1",
        file="airflow_backfill_provider/jobs/diamonds.py",
        old="return self.as_of(min(instant, then), up_to",
        new="return self.as_of(instant, up_to",
        killers=(f"{WINDOWS}::test_a_replay_in_steps_reads_the_other_tables_as_of_each_step",),
    ),
    Mutant(
        name="headroom-of-the-lead-alone",
        breaks="Nobody is told that another upstream is about to delete changes.",
        invariant="I6",
        file="airflow_backfill_provider/core/status/job_status.py",
        old="smallest_headroom([feed, *other_feeds.values()], now)",
        new="smallest_headroom([feed], now)",
        killers=(f"{WINDOWS}::test_status_tells_each_table",),
    ),
    Mutant(
        name="changes-of-others-ignored",
        breaks="The changes of a dimension do not reach the view.",
        invariant="I1",
        file="airflow_backfill_provider/engine/other_changes.py",
        old="if number := images.select(*map(column, other.rows.key.names)).distinct().count():",
        new="if False:",
        killers=(f"{SPARK}::test_a_view_over_two_tables_follows_both_through_crashes",),
        spark=True,
    ),
    Mutant(
        name="a-whole-view-of-former-rows",
        breaks="A view that is computed whole has the rows of other upstreams as of the begin of their windows.",
        invariant="I1",
        file="airflow_backfill_provider/shapes/full/writer.py",
        old="fresh = self._context.run(read, self._context.others_at_end(barrier))",
        new="fresh = self._context.run(read, self._context.others_at_begin(barrier, self._context.others))",
        killers=(
            (
                "tests/integration/engine/test_full_over_several.py::"
                "test_a_view_that_is_computed_whole_follows_all_tables_through_changes_and_crashes"
            ),
        ),
        spark=True,
    ),
    Mutant(
        name="the-lead-alone-is-a-cost",
        breaks="An epoch that may choose does not count what changes of other upstreams affect.",
        invariant="I1",
        file="airflow_backfill_provider/protocol/refresh.py",
        old="for window in others.windows:\n        if window.is_wide:",
        new="for window in others.windows:\n        if False:",
        killers=(
            (
                "tests/unit/protocol/test_inject_refresh.py::"
                "test_an_epoch_over_several_upstreams_chooses_by_what_all_of_their_changes_affect"
            ),
        ),
    ),
    Mutant(
        name="a-whole-view-over-repeated-keys",
        breaks="An epoch that computes the whole view takes a key that is there twice for two rows.",
        invariant="I6",
        file="airflow_backfill_provider/engine/window_changes.py",
        old="require_single_keys(self.tables, barrier)",
        new="pass",
        killers=(
            (
                "tests/integration/engine/test_auto_over_several.py::"
                "test_epochs_that_compute_the_whole_view_and_those_that_join_changes_take_turns[star]"
            ),
        ),
        spark=True,
    ),
)

"""Mistakes by which a backfill does not end while writers go on."""

from __future__ import annotations

from faults.mutants.killers import CDC_PLANNING
from faults.mutants.mutant import Mutant

_REPLAY = "airflow_backfill_provider/core/epoch/replay.py"
_HELD_UP = "airflow_backfill_provider/core/epoch/held_up.py"
_REPLAYS = "tests/unit/core/epoch/test_replay.py"
_ARRIVALS = "tests/property/test_replay.py"
_TAILS = "tests/property/test_held_up.py"

MUTANTS = (
    Mutant(
        name="replay-begins-again",
        breaks="Each epoch of the replay counts as the first, so the share of what is left never grows.",
        invariant="I4",
        file=_REPLAY,
        old="return cls(number=before + 1, backlog=backlog)",
        new="return cls(number=1, backlog=backlog)",
        killers=(
            f"{_REPLAYS}::test_the_number_follows_from_the_previous_barrier_alone",
            f"{_ARRIVALS}::test_ten_epochs_are_enough_whatever_the_speed_of_the_writers",
        ),
    ),
    Mutant(
        name="fixed-share",
        breaks="Each epoch of the replay takes an eighth, so the last one has to take eight times what arrives.",
        invariant="I4",
        file=_REPLAY,
        old="max(MOST_EPOCHS + 1 - self.number, 1)",
        new="8",
        killers=(
            f"{_REPLAYS}::test_the_share_grows_so_that_the_tenth_epoch_takes_all_whatever_arrives",
            f"{_ARRIVALS}::test_the_last_epoch_is_not_much_larger_than_the_others",
        ),
    ),
    Mutant(
        name="replay-fails-again",
        breaks="After an epoch of the replay that was given up, the next one stops before the correction, too.",
        invariant="I4",
        file=_REPLAY,
        old="if before and previous is not None and previous.given_up is not None:",
        new="if False:",
        killers=(
            f"{_REPLAYS}::test_after_an_epoch_that_was_given_up_everything_is_taken",
            f"{_ARRIVALS}::test_pauses_and_epochs_that_were_given_up_only_put_the_end_off",
        ),
    ),
    Mutant(
        name="metrics-believed",
        breaks="The rows that a writer says it changed count, although it has change files that show them.",
        invariant="I4",
        file="airflow_backfill_provider/sources/delta/changed_rows.py",
        old="for found in (_in_change_files(actions, storage), _by_metrics(actions)):",
        new="for found in (_by_metrics(actions), _in_change_files(actions, storage)):",
        killers=("tests/unit/sources/delta/test_changed_rows.py::test_a_change_file_counts_whatever_the_metrics_say",),
    ),
    Mutant(
        name="never-raised",
        breaks="The rate limit stays although writers add rows as fast as it reads them.",
        invariant="I4",
        file=_HELD_UP,
        old="doublings = held_up // PATIENCE",
        new="doublings = 0",
        killers=(f"{_TAILS}::test_it_ends_within_about_rows_by_rate_limit_epochs",),
    ),
    Mutant(
        name="raised-in-still-water",
        breaks="The rate limit is raised although the rows that are left become fewer.",
        invariant="I4",
        file=_HELD_UP,
        old="before.rows - left < LEAST_SHARE * wanted",
        new="before.rows - left <= wanted",
        killers=(f"{_TAILS}::test_a_limit_that_writers_leave_room_for_is_never_raised",),
    ),
    Mutant(
        name="stale-rows-count",
        breaks="Rows of a reading that a crash of the server took back count against the rate limit.",
        invariant="I4",
        file="airflow_backfill_provider/strategies/cdc/files.py",
        old="[file for file in stored.files(order) if file.path in counting]",
        new="stored.files(order)",
        killers=(f"{CDC_PLANNING}::test_rows_that_a_dying_server_left_do_not_count_against_the_rate_limit",),
    ),
)

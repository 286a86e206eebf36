"""Mistakes in the control tables: writes that must not win, and rows that are not checked."""

from __future__ import annotations

from faults.mutants.killers import STORE
from faults.mutants.mutant import Mutant

MUTANTS = (
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
        killers=(f"{STORE}::test_pinning_an_epoch_again_returns_the_barrier_that_the_log_holds",),
    ),
    Mutant(
        name="second-commit-wins",
        breaks="A second commit of an epoch is recorded beside the first one.",
        invariant="I5",
        file="airflow_backfill_provider/state/store.py",
        old="return None if earlier else Write(row)",
        new="return Write(row)",
        killers=(f"{STORE}::test_the_first_commit_of_an_epoch_wins",),
    ),
    Mutant(
        name="state-written-again",
        breaks="A zombie writes a state that is committed already.",
        invariant="I5",
        file="airflow_backfill_provider/state/store.py",
        old="if committed.epoch >= state.epoch:",
        new="if committed.epoch > state.epoch:",
        killers=(f"{STORE}::test_a_state_of_the_same_or_an_earlier_epoch_is_a_no_op",),
    ),
    Mutant(
        name="first-row-not-checked",
        breaks="The first row of a control table is not checked for edits.",
        invariant="I6",
        file="airflow_backfill_provider/state/stamps.py",
        old="if index >= 0:",
        new="if index > 0:",
        killers=("tests/unit/state/test_stamps.py::test_every_value_of_a_type_has_a_checksum_of_its_own",),
    ),
)

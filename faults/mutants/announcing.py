"""Mistakes in what a DAG announces of a job, and in who may stop an application."""

from __future__ import annotations

from faults.mutants.mutant import Mutant

REPORTING = "tests/unit/operators/test_epoch_reporting.py"
TRIGGER = "tests/unit/triggers/test_application.py"

MUTANTS = (
    Mutant(
        name="announced-before-success",
        breaks="A task run records what it announced before Airflow has stored its success.",
        invariant="I6",
        file="airflow_backfill_provider/operators/epoch_reporting.py",
        old="        self.collect_lineage()\n",
        new="        self.record_success()\n        self.collect_lineage()\n",
        killers=(f"{REPORTING}::test_what_a_task_run_announced_that_did_not_succeed_is_announced_again",),
    ),
    Mutant(
        name="only-own-epochs-announced",
        breaks="A task run announces only the epochs that it pinned.",
        invariant="I6",
        file="airflow_backfill_provider/operators/epoch_reporting.py",
        old="        epochs = to_announce(log, own)\n",
        new="        epochs = to_announce([], own)\n",
        killers=(f"{REPORTING}::test_epochs_of_the_command_line_in_between_are_announced_but_not_measured",),
    ),
    Mutant(
        name="record-of-an-earlier-job-counts",
        breaks="What was announced of an earlier job at the same place counts for the new one.",
        invariant="I6",
        file="airflow_backfill_provider/operators/announcing.py",
        old="known if known is not None and known.incarnation in self._store.incarnations() else None",
        new="known",
        killers=(f"{REPORTING}::test_another_job_at_the_same_place_begins_with_its_first_epoch",),
    ),
    Mutant(
        name="announced-goes-back",
        breaks="A task run that ends late sets back what its DAG has announced.",
        invariant="I3",
        file="airflow_backfill_provider/core/epoch/announced.py",
        old='"epoch": max(epoch, self.epoch)',
        new='"epoch": epoch',
        killers=("tests/unit/core/epoch/test_announced.py::test_a_record_never_goes_back",),
    ),
    Mutant(
        name="newest-attempt-stopped",
        breaks="A task run that is killed stops the newest attempt, although its own one is over.",
        invariant="I5",
        file="airflow_backfill_provider/triggers/application.py",
        old="if record is None or self.attempt != record.attempt:",
        new="if record is None:",
        killers=(f"{TRIGGER}::test_who_is_killed_stops_its_own_attempt_and_not_a_newer_one",),
    ),
    Mutant(
        name="shared-application-stopped",
        breaks="A task run that is killed stops the application that another one waits for.",
        invariant="I5",
        file="airflow_backfill_provider/triggers/application.py",
        old="        if others:\n",
        new="        if others and False:\n",
        killers=(f"{TRIGGER}::test_who_is_killed_stops_no_application_that_another_task_run_waits_for",),
    ),
)

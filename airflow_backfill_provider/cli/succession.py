"""Runs a job and the rebuild that grows beside its view, in turn."""

from __future__ import annotations

from dataclasses import replace

from airflow_backfill_provider import protocol
from airflow_backfill_provider.cli.runner import Runner
from airflow_backfill_provider.core.errors import BackfillError
from airflow_backfill_provider.jobs import succession
from airflow_backfill_provider.jobs.cut_over import cut_over_status


def run_with_successor(runner: Runner, *, max_epochs: int | None) -> None:
    """
    Run epochs of both, one of each in turn, until the rebuild has taken the view's place.

    So the served view stays fresh while the rebuild reads history. It ends early if neither has anything to do, or the
    rebuild is ready and waits for an approval.

    :param runner: the runner of the job.
    :param max_epochs: the most epochs of the rebuild; ``None`` for any number.
    :raises BackfillError: if an epoch fails; epochs that were committed before stay.
    """
    store, view = runner.backfill.store, runner.view
    successor = runner.backfill.successor
    if successor is None:
        return
    succession.create_successor(
        store, upstream=successor.upstream, engine=runner.engine, requested_by=str(runner.requester)
    )
    growing = replace(runner, backfill=successor)
    steps = growing.steps()
    epochs, was_idle = 0, False
    while True:
        served = _serve(runner)
        if runner.backfill.successor is None:
            break
        if epochs == max_epochs:
            return
        grown = next(steps)
        if grown.commit is None:
            steps = growing.steps()
        else:
            epochs += 1
            growing.say_epoch(grown.commit, of="rebuild, ")
            growing.show()
        if waits := cut_over_status(store, store.settings()):
            view.say(str(waits))
            return
        idle = not served and grown.commit is None
        if idle and was_idle:
            view.say(f"the rebuild has nothing to do: {grown.reason}")
            return
        was_idle = idle
    protocol.finish_job(store=store, requested_by=str(runner.requester))
    view.say(f"the rebuild is finished, and has taken the place of the view: {runner.backfill.job.materialized_view}")


def _serve(runner: Runner) -> bool:
    """
    Run an epoch of the served view, if there is something to do; return whether there was.

    What only a rebuild can mend, such as another table at the upstream's path, must not stop the rebuild.
    """
    try:
        done = runner.step()
    except BackfillError as error:
        if error.retryable:
            raise
        runner.view.say(f"the view in service is not kept fresh: {error}")
        return False
    if done.commit is not None:
        runner.say_epoch(done.commit)
    return done.commit is not None

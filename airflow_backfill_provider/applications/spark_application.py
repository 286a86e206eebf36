"""
The actions of the Spark applications in ``spark_apps/``.

The exit code is 0 if the action is done, 1 if it failed and a retry can help, and 3 if it failed and a retry cannot
help. The last line on standard error is the reason.
"""

from __future__ import annotations

import datetime as dt
import logging
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from airflow_backfill_provider import protocol
from airflow_backfill_provider.applications.connect import connected, ended_by_sigterm, remote_from_environment
from airflow_backfill_provider.applications.connect_engine import ConnectEngine
from airflow_backfill_provider.applications.spark_settings import (
    APPLICATION_VARIABLE,
    session_conf_from_environment,
    storage_options_from_environment,
)
from airflow_backfill_provider.core.application import (
    DONE,
    ERROR_PREFIX,
    FAILED,
    FAILED_FOR_GOOD,
    MESSAGE_PREFIX,
    SPARK_PREFIX,
)
from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit
from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.errors import BackfillError
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.core.remote import Remote
from airflow_backfill_provider.core.status import verification_text
from airflow_backfill_provider.core.status.compaction import APPLICATION, CompactionPolicy
from airflow_backfill_provider.core.status.difference_text import difference_lines
from airflow_backfill_provider.core.status.verified_state import VerifiedState
from airflow_backfill_provider.engine.spark_engine import SparkEngine
from airflow_backfill_provider.jobs import creation, succession
from airflow_backfill_provider.jobs import table_locator as placement
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.jobs.changed_query import change_query
from airflow_backfill_provider.jobs.followed_stars import follow_stars
from airflow_backfill_provider.jobs.maintenance import compaction
from airflow_backfill_provider.jobs.maintenance.compaction_text import done_lines
from airflow_backfill_provider.jobs.revert import put_back
from airflow_backfill_provider.jobs.verification import verifier, view_differences
from airflow_backfill_provider.protocol import repairs
from airflow_backfill_provider.spark.session import quiet_libraries
from airflow_backfill_provider.spark.spark_messages import safe_message
from airflow_backfill_provider.telemetry import epoch_log

EngineFor = Callable[[Mapping[str, str], str], SparkEngine]
"""Creates the engine from an object store's options and the application's purpose."""


def run_application(action: Callable[..., None], **arguments: Any) -> int:
    """
    Run an action in the session that ``spark-submit`` configured, or on the Spark Connect server in the environment.

    :returns: the exit code of the process.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s", stream=sys.stderr)
    quiet_libraries()
    try:
        remote = remote_from_environment()
        with _submitted() if remote is None else _on_server(remote) as engine:
            action(engine, storage_options_from_environment(), **arguments)
    except BackfillError as error:
        _say(ERROR_PREFIX, str(error))
        return FAILED if error.retryable else FAILED_FOR_GOOD
    except (PySparkException, Py4JError) as error:
        traceback.print_exc()
        _say(ERROR_PREFIX, f"Spark failed: {safe_message(error)}")
        return FAILED
    return DONE


@contextmanager
def _submitted() -> Iterator[EngineFor]:
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    _say(SPARK_PREFIX, f"{spark.sparkContext.applicationId} {spark.sparkContext.uiWebUrl or ''}".strip())
    try:
        yield lambda storage_options, _: SparkEngine(spark, storage_options)
    finally:
        spark.stop()


@contextmanager
def _on_server(remote: Remote) -> Iterator[EngineFor]:
    what = os.environ.get(APPLICATION_VARIABLE, "airflow-backfill")
    with (
        connected(remote, what=what, conf=session_conf_from_environment()) as connection,
        ended_by_sigterm(connection.spark),
    ):
        _say(SPARK_PREFIX, f"{connection.session.session_id} {remote}")
        yield lambda storage_options, purpose: ConnectEngine(connection, storage_options, purpose=purpose)


def run_epochs(
    engine: EngineFor,
    storage_options: dict[str, str],
    *,
    state: str,
    epoch: int,
    epochs: int = 1,
    until: dt.datetime | None = None,
) -> None:
    """
    Run one pinned epoch to its commit, and then further epochs up to the number that its task run may run.

    :param epochs: the most epochs that the task run may run, in all its tries.
    :param until: the commit time of the upstream up to which the further epochs read.
    :raises StateError: if no such epoch is pinned.
    """
    backfill = Backfill.at(state, storage_options)
    first = backfill.store.pinned(epoch)
    made = engine(storage_options, "epoch")

    def begun(barrier: Barrier) -> SparkEngine:
        if barrier != first:
            _say(MESSAGE_PREFIX, "; ".join(epoch_log.begin(barrier, backfill.job.upstream.location)))
            for warning in barrier.warnings:
                if warning not in first.warnings:
                    _say(MESSAGE_PREFIX, f"epoch {barrier.epoch}: {warning}")
        return made

    for done in protocol.run_epochs(
        first, store=backfill.store, upstream=backfill.upstream, engine=begun, epochs=epochs, until=until
    ):
        if done.commit is None:
            _say(MESSAGE_PREFIX, f"no further epoch: {done.reason}")
        else:
            _log(done.commit)
    _after_commit(backfill, made)


def apply_changes(engine: EngineFor, storage_options: dict[str, str], *, state: str, epoch: int) -> None:
    """
    Apply the changes of a pinned epoch that several applications share.

    :raises StateError: if no such epoch is pinned.
    """
    backfill = Backfill.at(state, storage_options)
    barrier = backfill.store.pinned(epoch)
    made = engine(storage_options, "epoch-changes")
    commit = protocol.apply_changes(barrier, store=backfill.store, engine=made)
    _say(MESSAGE_PREFIX, f"the changes of epoch {epoch} are applied")
    if commit is not None:
        _log(commit)
        _after_commit(backfill, made)


def read_chunk_part(engine: EngineFor, storage_options: dict[str, str], *, state: str, epoch: int, part: int) -> None:
    """
    Read one part of the chunk of a pinned epoch that several applications share.

    :raises StateError: if no such epoch is pinned, or it has no such part.
    """
    backfill = Backfill.at(state, storage_options)
    barrier = backfill.store.pinned(epoch)
    made = engine(storage_options, f"epoch-read-chunk-part-{part}")
    commit = protocol.read_chunk_part(barrier, part, store=backfill.store, engine=made)
    _say(MESSAGE_PREFIX, f"part {part} of epoch {epoch} is read")
    if commit is not None:
        _log(commit)
        _after_commit(backfill, made)


def compact(
    engine: EngineFor, storage_options: dict[str, str], *, state: str, at: int, target_file_size: int | None
) -> None:
    """Compact the tables of a job, if a compaction is due."""
    backfill = Backfill.at(state, storage_options)
    policy = CompactionPolicy(at=at, target_file_size=target_file_size)
    done = compaction.compact_job(backfill, engine=lambda: engine(storage_options, APPLICATION), policy=policy)
    for what in done_lines(done):
        _say(MESSAGE_PREFIX, what)


def verify(
    engine: EngineFor, storage_options: dict[str, str], *, state: str, requester: Requester, steps: int | None
) -> None:
    """Verify a view, and record the result. Continue where an earlier try of the same task run ended."""
    backfill = Backfill.at(state, storage_options)
    newest = backfill.verifications.newest(backfill.settings().incarnation)
    found = verifier.verify_job(
        backfill,
        engine=lambda: engine(storage_options, "verify"),
        requester=requester,
        anew=newest is None or newest.pinned.begun_by != requester,
        steps=steps,
        on_step=lambda so_far: _say(
            MESSAGE_PREFIX, f"{len(so_far.compared)} of {len(so_far.pinned.steps)} steps are compared"
        ),
    )
    _say(MESSAGE_PREFIX, verification_text.compared_line(backfill.job.name, VerifiedState.of(found)))


def repair(engine: EngineFor, storage_options: dict[str, str], *, state: str, requester: Requester) -> None:
    """Repair the differences that the newest verification found, and verify again."""
    backfill = Backfill.at(state, storage_options)
    found = repairs.repair_what_differs(
        backfill,
        engine=lambda: engine(storage_options, "epoch"),
        requester=requester,
        on_epoch=lambda barrier: _say(MESSAGE_PREFIX, f"epoch {barrier.epoch} is committed"),
    )
    _say(MESSAGE_PREFIX, verification_text.compared_line(backfill.job.name, VerifiedState.of(found)))


def _after_commit(backfill: Backfill, engine: SparkEngine) -> None:
    """Do what follows an epoch. If it fails, the epochs stay committed."""
    _verify_if_asked(backfill, engine)
    if happens := follow_stars(backfill, engine):
        _say(MESSAGE_PREFIX, happens)


def _verify_if_asked(backfill: Backfill, engine: SparkEngine) -> None:
    """Carry out the verification that is waiting, if there is one."""
    try:
        found = verifier.carry_out_waiting(backfill, engine)
    except BackfillError as error:
        _say(MESSAGE_PREFIX, f"the requested verification failed: {error}")
        return
    if found is not None:
        _say(MESSAGE_PREFIX, verification_text.compared_line(backfill.job.name, VerifiedState.of(found)))


def _log(commit: EpochCommit) -> None:
    _say(MESSAGE_PREFIX, epoch_log.end(commit))


def create(
    engine: EngineFor, storage_options: dict[str, str], *, definition: dict[str, Any], requested_by: str
) -> None:
    """Create a job, unless it was created with the same definition."""
    made = cache(partial(engine, storage_options, "create"))
    backfill = placement.to_create(Backfill(BackfillJob(**definition), storage_options), made)
    _begin(creation.create_job, backfill, made, requested_by)


def rebuild(
    engine: EngineFor, storage_options: dict[str, str], *, definition: dict[str, Any], requested_by: str
) -> None:
    """Rebuild a job."""
    _start_over(creation.rebuild_job, engine, storage_options, definition, requested_by)


def rebuild_keep_serving(
    engine: EngineFor, storage_options: dict[str, str], *, definition: dict[str, Any], requested_by: str
) -> None:
    """Begin a rebuild that takes the view's place once it is finished."""
    _start_over(succession.grow_successor, engine, storage_options, definition, requested_by)


def _start_over(
    action: Callable[..., JobSettings],
    engine: EngineFor,
    storage_options: dict[str, str],
    definition: dict[str, Any],
    requested_by: str,
) -> None:
    made = cache(partial(engine, storage_options, "rebuild"))
    backfill = placement.to_rebuild(Backfill(BackfillJob(**definition), storage_options), made)
    _begin(action, backfill, made, requested_by)


def _begin(
    action: Callable[..., JobSettings], backfill: Backfill, engine: Callable[[], SparkEngine], requested_by: str
) -> None:
    action(
        backfill.job,
        store=backfill.store,
        upstream=backfill.upstream,
        engine=engine,
        requested_by=requested_by,
    )


def change(
    engine: EngineFor, storage_options: dict[str, str], *, definition: dict[str, Any], requested_by: str
) -> None:
    """Change the query of a job whose view is finished."""
    backfill = Backfill(BackfillJob(**definition), storage_options)
    _begin(change_query, backfill, lambda: engine(storage_options, "rebuild"), requested_by)


def diff(engine: EngineFor, storage_options: dict[str, str], *, definition: dict[str, Any], requested_by: str) -> None:
    """Compare what waits for an approval with the view that serves, and record the difference."""
    shown = view_differences.compare_waiting(
        Backfill(BackfillJob(**definition), storage_options),
        comparer=lambda: engine(storage_options, "diff").view_comparer(),
        requester=Requester(user=requested_by),
    )
    for line in difference_lines(shown.recorded):
        _say(MESSAGE_PREFIX, line)


def revert(
    engine: EngineFor, storage_options: dict[str, str], *, definition: dict[str, Any], requested_by: str
) -> None:
    """Put the view back that a job had before its newest rebuild."""
    backfill = Backfill(BackfillJob(**definition), storage_options)
    put_back(backfill.store, engine=lambda: engine(storage_options, "rebuild"), requested_by=requested_by)


def _say(prefix: str, text: str) -> None:
    """Print a line for the submitter, which recognizes it by its prefix."""
    line = " ".join(text.splitlines())
    print(f"{prefix}{line}", file=sys.stderr, flush=True)  # noqa: T201 - read by the submitter

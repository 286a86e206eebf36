"""Translates the package's errors into Airflow's, so that tasks are retried only if a retry can help."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from airflow_backfill_provider.core.errors import BackfillError, UpstreamNotFinishedError


@contextmanager
def airflow_errors() -> Iterator[None]:
    """
    Translate this package's errors in the block, with the same messages.

    :raises AirflowSkipException: if the job waits for another one, which finishes its view in a later DAG run.
    :raises AirflowFailException: for an error that a retry cannot help.
    :raises AirflowException: for an error that a retry may help.
    """
    try:
        yield
    except UpstreamNotFinishedError as error:
        raise AirflowSkipException(str(error)) from error
    except BackfillError as error:
        raise airflow_error(str(error), retryable=error.retryable) from error


def airflow_error(message: str, *, retryable: bool) -> AirflowException:
    """Return Airflow's exception for an error that a retry can or cannot help."""
    return AirflowException(message) if retryable else AirflowFailException(message)

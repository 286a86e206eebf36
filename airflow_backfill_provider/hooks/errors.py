"""The package's errors as Airflow's: a retry only where one can help."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_backfill_provider.core.errors import BackfillError


@contextmanager
def airflow_errors() -> Iterator[None]:
    """
    Translate what the block raises of this package's errors, message unchanged.

    :raises AirflowFailException: for an error that no retry can mend.
    :raises AirflowException: for one that a retry may.
    """
    try:
        yield
    except BackfillError as error:
        raise airflow_error(str(error), retryable=error.retryable) from error


def airflow_error(message: str, *, retryable: bool) -> AirflowException:
    """Return Airflow's exception for an error, by whether trying again can help."""
    return AirflowException(message) if retryable else AirflowFailException(message)

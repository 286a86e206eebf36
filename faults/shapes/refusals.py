"""Check that a refusal is justified: a false error is as wrong as a wrong view."""

from __future__ import annotations

from collections.abc import Callable

from airflow_backfill_provider.core.errors import (
    BackfillError,
    ChangeDataFeedDisabledError,
    ChangeFeedGapError,
    DataFileError,
    DuplicateKeyError,
    InvalidJobError,
    MaterializedViewError,
    MissingRowsError,
    QueryFailedError,
    StateError,
    TableLogError,
    UpstreamNotFoundError,
    UpstreamReplacedError,
    UpstreamSchemaChangedError,
)
from faults.campaign import WrongError
from faults.shapes.case import Case
from faults.shapes.values import IN_MESSAGES

_NEVER = (
    ChangeDataFeedDisabledError,
    ChangeFeedGapError,
    DuplicateKeyError,
    StateError,
    UpstreamReplacedError,
)
"""Errors without a cause in any case, because keys are unique and nothing is removed from tables."""


def require_true(error: BackfillError, case: Case, *, began: bool, fails: Callable[[], bool]) -> None:
    """
    Check that a refusal is justified.

    :param began: whether the job was created.
    :param fails: returns whether Spark itself refuses the query over the case's rows.
    :raises WrongError: if it is not justified; the error quotes it.
    """
    said = f"{type(error).__name__}: {error}"
    if any(piece in said for piece in IN_MESSAGES):
        raise WrongError(f"an error quotes a row's value: {said!a}") from error
    if error.retryable:
        raise WrongError(f"an error is retryable, although a retry cannot help: {said!a}") from error
    if isinstance(error, QueryFailedError) and not fails():
        raise WrongError(f"the query fails on no row: {said!a}") from error
    if _is_false(error, case, began=began):
        raise WrongError(f"the error has no cause: {said!a}") from error


def _is_false(error: BackfillError, case: Case, *, began: bool) -> bool:
    if isinstance(error, _NEVER):
        return True
    if isinstance(error, UpstreamNotFoundError):
        # Only Spark can open a log with statistics that are not JSON.
        return began or not case.lies
    if isinstance(error, UpstreamSchemaChangedError):
        return not case.alters
    if isinstance(error, DataFileError | TableLogError | MissingRowsError):
        return not case.lies
    # A job that was accepted has to run, unless the session has other settings.
    return began and isinstance(error, InvalidJobError | MaterializedViewError) and not case.sets

"""Whether a refusal is true: an error that tells of what did not happen is as wrong as a wrong view."""

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
"""What no case does: its keys are unique, and nothing of its tables is taken away."""


def require_true(error: BackfillError, case: Case, *, began: bool, fails: Callable[[], bool]) -> None:
    """
    Refuse a refusal that is not true.

    :param began: whether the job was created.
    :param fails: tells whether Spark itself refuses the query over the case's rows.
    :raises WrongError: quoting it.
    """
    said = f"{type(error).__name__}: {error}"
    if any(piece in said for piece in IN_MESSAGES):
        raise WrongError(f"an error quotes a row's value: {said!a}") from error
    if error.retryable:
        raise WrongError(f"an error that a retry does not help, which says that it may: {said!a}") from error
    if isinstance(error, QueryFailedError) and not fails():
        raise WrongError(f"the query fails on no row: {said!a}") from error
    if _is_false(error, case, began=began):
        raise WrongError(f"nothing of the kind happened: {said!a}") from error


def _is_false(error: BackfillError, case: Case, *, began: bool) -> bool:
    if isinstance(error, _NEVER):
        return True
    if isinstance(error, UpstreamNotFoundError):
        # No reader but Spark opens a log that has no JSON where statistics stand.
        return began or not case.lies
    if isinstance(error, UpstreamSchemaChangedError):
        return not case.alters
    if isinstance(error, DataFileError | TableLogError | MissingRowsError):
        return not case.lies
    # Whoever accepted a job has to run it, unless the session is another one.
    return began and isinstance(error, InvalidJobError | MaterializedViewError) and not case.sets

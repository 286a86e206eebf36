"""Explains a row at a terminal: starts Spark only if the user agrees."""

from __future__ import annotations

import sys
from collections.abc import Callable

import typer

from airflow_backfill_provider.core.errors import RowNotTraceableError
from airflow_backfill_provider.core.status.row_answer import RowAnswer
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.jobs.row_questions import RowFinder, why


def explain(backfill: Backfill, key: object, *, finder: Callable[[], RowFinder], starts: bool) -> RowAnswer:
    """
    Answer why the view of a job has a row, or why not.

    :param finder: starts Spark.
    :param starts: whether Spark may start without a question.
    :raises RowNotTraceableError: if Spark is needed, and the user does not want it, or cannot be asked.
    :raises BackfillError: as :func:`~airflow_backfill_provider.jobs.row_questions.why`.
    """
    try:
        answer = why(backfill, key)
    except RowNotTraceableError as error:
        if not starts and not _agrees(str(error)):
            raise RowNotTraceableError(f"{error}; give --yes to start Spark for it") from None
    else:
        if not answer.left_to_spark or not (starts or _agrees(answer.left_to_spark)):
            return answer
    return why(backfill, key, finder=finder)


def _agrees(cost: str) -> bool:
    if not sys.stdin.isatty():
        return False
    return typer.confirm(f"{cost}. Start Spark?", err=True)

"""
What a user approved: one definition of a job, as of one incarnation.

The definition may change after the question was asked, for example because a DAG's file is parsed again. So the task
that creates the job compares.
"""

from __future__ import annotations

from typing import Self

from airflow_backfill_provider.core.digest import digest
from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.frozen import Frozen
from airflow_backfill_provider.core.job.definition import BackfillJob


class Approval(Frozen):
    """
    What a question was about.

    :param job: the job's name.
    :param definition: digest of the whole definition, with the first settings.
    :param incarnation: the job's incarnation; empty if it was not created.
    """

    job: str
    definition: str
    incarnation: str

    @classmethod
    def of(cls, job: BackfillJob, incarnation: str) -> Self:
        """Return the approval of a definition."""
        return cls(job=job.name, definition=digest(job.model_dump(mode="json")), incarnation=incarnation)

    def require(self, job: BackfillJob, incarnation: str) -> None:
        """
        Refuse a definition that is not the approved one.

        A job that was created since with the approved definition is the approved one.

        :param incarnation: the job's incarnation now; empty if it is not created.
        :raises InvalidJobError: with what to do.
        """
        now = Approval.of(job, incarnation)
        if (now.job, now.definition) != (self.job, self.definition):
            raise InvalidJobError(
                f"job {job.name}: its definition has changed since it was approved; trigger a new DAG run to ask again"
            )
        if self.incarnation and self.incarnation != incarnation:
            raise InvalidJobError(
                f"job {job.name}: it was removed or rebuilt since it was approved; trigger a new DAG run to ask again"
            )

"""The fields of ``upstream`` for a table in a SQLite file."""

from __future__ import annotations

from typing import ClassVar, Self

from pydantic import StrictStr

from airflow_backfill_provider.core.errors import UpstreamError
from airflow_backfill_provider.core.job.upstream import UpstreamDefinition
from airflow_backfill_provider.sources.spark_failures import Refusal

LEFT_OUT = Refusal("TOY_LEFT_OUT", UpstreamError, "the toy database did not log column {about}; rebuild the job")


class ToyUpstream(UpstreamDefinition):
    """A table ``orders`` in a SQLite file; ``change_log`` is beside the job's control tables by default."""

    kind: ClassVar[str] = "toy"
    offset_name: ClassVar[str] = "position"

    file: StrictStr
    change_log: StrictStr = ""

    @property
    def location(self) -> str:
        return f"toy: {self.file}"

    def for_job(self, name: str, state: str) -> Self:
        return self.model_copy(update={"change_log": self.change_log or f"{state}/change_log"})

    def default_folders(self, state: str) -> frozenset[str]:
        return frozenset({f"{state}/change_log"})

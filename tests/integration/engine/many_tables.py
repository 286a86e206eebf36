"""Several upstream tables that all keep changing, and a job over some of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Self

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.jobs import creation
from tests.integration.engine.lakehouse import CHANGE_DATA_FEED, Lakehouse
from tests.integration.engine.quick_changes import is_changed
from tests.integration.engine.upstream_templates import BeginningUpstream

_NAME = re.compile(r"\{(\w+)\}")


class ManyTables(Lakehouse):
    """The tables, and a job over some of them. In statements, their names stand in braces."""

    @classmethod
    def of(cls, lakehouse: Lakehouse) -> Self:
        """Return tables in the folder of a lakehouse."""
        found = cls(lakehouse.spark, lakehouse.folder, lakehouse.storage_options)
        found.templates = lakehouse.templates
        return found

    def location(self, name: str) -> str:
        """Return where a table lies."""
        return f"{self.folder}/{name}"

    def table(self, name: str) -> str:
        """Return a table's name in SQL."""
        return f"delta.{quote(self.location(name))}"

    def named(self, statement: str) -> str:
        """Return a statement with the tables in place of their names in braces."""
        return _NAME.sub(lambda found: self.table(found[1]), statement)

    def make_table(self, name: str, columns: str, *rows: str, properties: Mapping[str, str] = CHANGE_DATA_FEED) -> None:
        """
        Create a table, or copy what another test of the process has made in the same way.

        :param rows: the statements that insert its rows.
        """
        assignments = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
        create = f"CREATE TABLE {{{name}}} ({columns}) USING delta TBLPROPERTIES ({assignments})"
        beginning = BeginningUpstream(self.templates) if self.templates else None
        for statement in (create, *rows):
            run = partial(self.change_by_spark, statement)
            if not (beginning and beginning.run(statement, Path(self.location(name)), run)):
                beginning = None
                run()

    def change(self, *statements: str) -> None:
        """Run statements by deltalake, if it can, because it needs a fraction of the time."""
        for statement in statements:
            names = set(_NAME.findall(statement))
            location = self.location(names.pop()) if len(names) == 1 else None
            if not (location and is_changed(_NAME.sub("changed", statement), location, self.storage_options)):
                self.change_by_spark(statement)

    def change_by_spark(self, *statements: str) -> None:
        """Run statements by Spark."""
        for statement in statements:
            self.spark.sql(self.named(statement))

    def create_defined(self) -> None:
        """Create the job that is defined."""
        self.start_job(creation.create_job, self.backfill)

    def pin(self) -> Barrier:
        """Pin the next barrier."""
        barrier = self.inject()
        assert barrier is not None
        return barrier

    def assert_query(self) -> None:
        """Compare the view with the query over the tables as they are now."""
        self.assert_equals_query(self.over_tables())

    def over_tables(self) -> str:
        """Return the job's query over the tables as they are now."""
        assert self.job is not None
        names = "|".join(self.job.upstreams or ())
        return self.named(re.sub(rf"\b(FROM|JOIN) ({names})\b", r"\1 {\2}", self.job.query))

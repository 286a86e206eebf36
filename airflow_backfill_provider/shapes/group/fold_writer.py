"""Writes a view of groups on Spark by a fold: the changes of an epoch are added to the state of the touched groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.unit_work import UnitWork
from airflow_backfill_provider.core.errors import MaterializedViewError
from airflow_backfill_provider.core.scan.table_version import TableVersions
from airflow_backfill_provider.lake.log.schemas import HIDDEN
from airflow_backfill_provider.lake.tables.view_identity import ViewIdentity
from airflow_backfill_provider.shapes.changes import Changes
from airflow_backfill_provider.shapes.group.fold.groups import FoldedStep
from airflow_backfill_provider.shapes.group.fold.reasons import NotFolded
from airflow_backfill_provider.shapes.group.fold.statements import IMPOSSIBLE
from airflow_backfill_provider.shapes.group.folded_query import FoldedQuery
from airflow_backfill_provider.shapes.group.grouped_rows import Images
from airflow_backfill_provider.shapes.group.writer import SliceWriter
from airflow_backfill_provider.spark.replaced_units import replace_known, table_before
from airflow_backfill_provider.spark.stamps import CHANGES

_OF_STATE = {HIDDEN: True, "comment": "state of the row's group, and no column of the query: do not read it"}
"""The metadata of a column that keeps the state of a group."""


class FoldWriter(SliceWriter):
    """
    Writes one job's view.

    A first load and a repair compute groups from their rows, as the other technique does. A repair must: the state that
    it repairs is no place to begin from.
    """

    def schema(self) -> StructType:
        """Return the view's columns; those that keep the state of a group are marked, so that no reader sees them."""
        hidden = dict(self._query.state)
        return StructType(
            [
                StructField(field.name, field.dataType, metadata=_OF_STATE) if field.name in hidden else field
                for field in super().schema().fields
            ]
        )

    def write_changes(
        self,
        changes: Changes,
        identity: ViewIdentity,
        barrier: Barrier,
        *,
        repairs: bool,
        since: TableVersions | None,
    ) -> UnitWork | None:
        """Add the changes to the state that the view has; an epoch refuses a view that another writer changed."""
        if since is None or repairs:
            return super().write_changes(changes, identity, barrier, repairs=repairs, since=since)
        return self._fold_changes(changes, identity, barrier)

    def _fold_changes(self, changes: Changes, identity: ViewIdentity, barrier: Barrier) -> UnitWork | None:
        """Add the changes to the state that the view has."""
        with self._rows.images(changes, barrier) as images:
            return self._fold_in(images, CHANGES, identity, barrier)

    def _fold_in(self, images: Images, part: str, identity: ViewIdentity, barrier: Barrier) -> UnitWork | None:
        """Add rows that go and rows that come to the state that the view has, in one commit per part of an epoch."""
        view = self._context.view
        # The last write left the same rows, but VACUUM may have deleted the files of its version after an OPTIMIZE.
        known = table_before(view.table, part, identity, barrier)
        if known is None:
            return None
        folded = self._folded()
        schema = self.schema()
        names, outputs = schema.names, self._slices.outputs_in(schema)

        def whole(rows: DataFrame, _: Sequence[str]) -> DataFrame:
            return rows.toDF(*(f"c{number}" for number in range(len(names))))

        def read(lost: DataFrame) -> DataFrame:
            return self._slices.of_units(lost.toDF(*self._rows.names), barrier)

        step = FoldedStep(folded.fold, whole, folded.grouped, folded.finished)
        with self._possible():
            old, new = folded.rows_of(images.old), folded.rows_of(images.new)
            with step.touched(old, new, lambda units: known.of_units(units).rows, read) as touched:
                units = touched.units.named(outputs) if touched.units else None
                held, fresh = known.among(touched.old), touched.fresh.toDF(*names)
                replace_known(view.table, held, fresh, units, part, identity, barrier)
                reads_all = images.reads_all or touched.number_lost
                return UnitWork(
                    technique=self._query.technique, units=touched.number, rows_read=None if reads_all else 0
                )

    @contextmanager
    def _possible(self) -> Iterator[None]:
        """Turn the error of a state that no rows have into one that says what to do."""
        try:
            yield
        except PySparkException as error:
            if IMPOSSIBLE not in str(error):
                raise
            # Spark's message quotes nothing that helps, and a traceback of it may quote rows.
            raise MaterializedViewError(
                f"materialized_view: in the view of job {self._context.job.name}, the hidden columns of a group "
                "contradict its changes, so another writer changed them: verify the view, and ask for a repair"
            ) from None

    def _folded(self) -> FoldedQuery:
        """
        Return the job's fold.

        :raises MaterializedViewError: if it is not the one that the settings pin.
        """
        found = FoldedQuery.of(self._rows)
        if isinstance(found, NotFolded) or tuple(found.state.items()) != self._query.state:
            raise MaterializedViewError(
                f"materialized_view: job {self._context.job.name} keeps the state of its groups in columns that this "
                "version of the package or of Spark makes otherwise; rebuild the job"
            )
        return found

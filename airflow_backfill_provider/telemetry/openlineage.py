"""
OpenLineage events of committed epochs, each a step from the upstream to the view.

:func:`epoch_lineage` collects the lineage without OpenLineage. Only OpenLineage's provider calls
:func:`operator_lineage`, which needs its classes.
"""

from __future__ import annotations

import logging
import os
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit
from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.epoch.window import UpstreamWindow
from airflow_backfill_provider.core.job.upstream import UpstreamDefinition
from airflow_backfill_provider.core.location import is_local
from airflow_backfill_provider.shapes import resolved_query_of
from airflow_backfill_provider.shapes.queries import QueryLineage

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage

    from airflow_backfill_provider.jobs.backfill import Backfill


logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """
    A table as an epoch read or wrote it.

    :param location: the table's canonical location.
    :param name: its full name in a catalog; empty if it has none.
    :param layer: the storage layer: the kind of source of an upstream, ``delta`` for the view.
    :param version: the table's version; ``None`` before the first write.
    :param columns: column → type, as Delta writes it.
    :param rows: the rows that the epoch read from the table or wrote to it.
    """

    location: str
    name: str
    layer: str
    version: str | None
    columns: Mapping[str, str]
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochLineage:
    """
    The lineage of an epoch.

    :param upstream: the upstream, at the end of the epoch's window.
    :param view: the view, after the epoch.
    :param query: the view's query.
    :param columns: the lineage of the view's columns.
    :param others: the upstreams beside the one that leads, by their names in the query.
    """

    upstream: TableState
    view: TableState
    query: str
    columns: QueryLineage
    others: Mapping[str, TableState] = field(default_factory=dict)


def epoch_lineage(
    settings: JobSettings,
    barrier: Barrier,
    commit: EpochCommit,
    *,
    upstream_columns: Mapping[str, str],
    view_columns: Mapping[str, str],
    rows: int,
    other_columns: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> EpochLineage:
    """
    Return the lineage of a committed epoch, or of several epochs that it is the last of.

    :param upstream_columns: the upstream's columns with their types.
    :param view_columns: the view's columns with their types.
    :param rows: the number of rows that were read, see :func:`rows_of`.
    :param other_columns: the columns of the upstreams beside the one that leads, by their names.
    """
    job = settings.definition
    return EpochLineage(
        upstream=_upstream_state(job.upstream, barrier.upstream, upstream_columns, rows),
        view=TableState(
            location=job.view_location,
            name=job.view_name,
            layer="delta",
            version=None if commit.view_version is None else str(commit.view_version),
            columns=view_columns,
            rows=rows,
        ),
        query=job.query,
        columns=resolved_query_of(settings).lineage(
            tuple(upstream_columns), settings.key_order.names, settings.upstream.names
        ),
        others={
            name: _upstream_state(job.others[name], barrier.window(name), columns, rows)
            for name, columns in other_columns.items()
        },
    )


def _upstream_state(
    upstream: UpstreamDefinition, window: UpstreamWindow, columns: Mapping[str, str], rows: int
) -> TableState:
    return TableState(
        location=upstream.location,
        name=upstream.catalog_table,
        layer=upstream.kind,
        version=str(window.to_offset),
        columns=columns,
        rows=rows,
    )


def rows_of(commit: EpochCommit) -> int:
    """Return the number of rows that an epoch read: snapshot rows and changed ones."""
    return commit.snapshot_read_row_count + commit.upstream_output_row_count


def dataset_name(location: str) -> tuple[str, str]:
    """Return a table's namespace and name by OpenLineage's rules for files, as Spark's own lineage does."""
    if is_local(location):
        return "file", location
    parts = urllib.parse.urlsplit(location)
    scheme = "s3" if parts.scheme in {"s3a", "s3n"} else parts.scheme
    return f"{scheme}://{parts.netloc}", parts.path.strip("/") or "/"


def name_in_catalog(table: str) -> tuple[str, str]:
    """Return the namespace and the name of a table in a catalog: the catalog, and the table with its schema."""
    catalog, _, name = table.partition(".")
    return catalog, name


def operator_lineage(lineage: EpochLineage) -> OperatorLineage[Any, Any]:
    """Return an epoch's lineage for OpenLineage's provider, which must be installed."""
    from airflow.providers.openlineage.extractors import OperatorLineage
    from openlineage.client.event_v2 import InputDataset, OutputDataset
    from openlineage.client.facet_v2 import input_statistics_input_dataset as input_statistics
    from openlineage.client.facet_v2 import output_statistics_output_dataset as output_statistics
    from openlineage.client.facet_v2 import sql_job

    view, lead = lineage.view, dataset_name(lineage.upstream.location)
    written = dataset_name(view.location)
    others = {name: dataset_name(table.location) for name, table in lineage.others.items()}
    return OperatorLineage(
        inputs=[
            InputDataset(
                *dataset_name(upstream.location),
                facets=_table_facets(upstream),
                inputFacets={
                    "inputStatistics": input_statistics.InputStatisticsInputDatasetFacet(rowCount=upstream.rows)
                },
            )
            for upstream in (lineage.upstream, *lineage.others.values())
        ],
        outputs=[
            OutputDataset(
                *written,
                facets={**_table_facets(view), "columnLineage": _column_lineage(lineage.columns, lead, others)},
                outputFacets={
                    "outputStatistics": output_statistics.OutputStatisticsOutputDatasetFacet(rowCount=view.rows)
                },
            )
        ],
        job_facets={"sql": sql_job.SQLJobFacet(query=lineage.query, dialect="spark")},
    )


class EpochLineageMixin:
    """
    Reports the epochs of an operator to OpenLineage.

    The operator must call :meth:`remember_lineage` for each epoch, and then :meth:`collect_lineage`; without epochs,
    nothing is reported. A task run reports once: all its epochs are one step, which ends with the versions after the
    last epoch.
    """

    _last: tuple[Backfill, Barrier, EpochCommit] | None = None
    _rows = 0
    _lineage: EpochLineage | None = None
    _process = 0

    def remember_lineage(self, backfill: Backfill, barrier: Barrier, commit: EpochCommit) -> None:
        """Remember an epoch of this task run."""
        self._process = os.getpid()
        self._last = (backfill, barrier, commit)
        self._rows += rows_of(commit)

    def collect_lineage(self) -> None:
        """
        Read what the lineage of the remembered epochs needs, if OpenLineage is in use; never raise.

        OpenLineage's provider asks for the lineage in a process that it forks, where deltalake cannot open a table.
        """
        if self._last is None or not _in_use():
            return
        try:
            self._lineage = self._read_lineage(*self._last)
        except Exception:  # lineage that cannot be read must not fail the task
            logger.warning("the lineage of epoch %d is not known", self._last[2].epoch, exc_info=True)

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage[Any, Any] | None:
        """Return the lineage of the epochs. OpenLineage's provider calls this, in a fork of the task's process."""
        del task_instance
        if self._lineage is not None:
            return operator_lineage(self._lineage)
        if self._last is None or os.getpid() != self._process:
            return None
        return operator_lineage(self._read_lineage(*self._last))

    def _read_lineage(self, backfill: Backfill, barrier: Barrier, commit: EpochCommit) -> EpochLineage:
        from airflow_backfill_provider.sources.delta.history import DeltaHistory

        settings = backfill.store.settings_for(barrier)
        view = DeltaHistory(settings.definition.view_location, backfill.storage_options)
        return epoch_lineage(
            settings,
            barrier,
            commit,
            upstream_columns=backfill.upstream.at(barrier.upstream.to_offset).types,
            view_columns=view.at().types,
            rows=self._rows,
            other_columns={
                name: source.at(barrier.window(name).to_offset).types for name, source in backfill.others.items()
            },
        )


def _in_use() -> bool:
    """Return whether OpenLineage's provider is installed and sends events."""
    try:
        from airflow.providers.openlineage import conf
    except ImportError:
        return False
    return not conf.is_disabled()


def _table_facets(table: TableState) -> dict[str, Any]:
    from openlineage.client.facet_v2 import (
        dataset_version_dataset,
        schema_dataset,
        storage_dataset,
        symlinks_dataset,
    )

    facets: dict[str, Any] = {
        "schema": schema_dataset.SchemaDatasetFacet(
            fields=[schema_dataset.SchemaDatasetFacetFields(name=n, type=t) for n, t in table.columns.items()]
        ),
        "storage": storage_dataset.StorageDatasetFacet(storageLayer=table.layer),
    }
    if table.name:
        namespace, name = name_in_catalog(table.name)
        identifier = symlinks_dataset.Identifier(namespace=namespace, name=name, type="TABLE")
        facets["symlinks"] = symlinks_dataset.SymlinksDatasetFacet(identifiers=[identifier])
    if table.version is not None:
        facets["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(datasetVersion=table.version)
    return facets


def _column_lineage(lineage: QueryLineage, lead: tuple[str, str], others: Mapping[str, tuple[str, str]]) -> Any:
    from openlineage.client.facet_v2 import column_lineage_dataset as facet

    def field(column: str, kind: str, subtype: str) -> Any:
        how = facet.Transformation(type=kind, subtype=subtype)
        table, _, of_table = column.partition(".") if others else ("", "", column)
        namespace, name = others.get(table, lead)
        return facet.InputField(namespace=namespace, name=name, field=of_table, transformations=[how])

    return facet.ColumnLineageDatasetFacet(
        fields={
            output: facet.Fields(
                inputFields=[
                    field(column, "DIRECT", "IDENTITY" if origin.unchanged else "TRANSFORMATION")
                    for column in origin.inputs
                ]
            )
            for output, origin in lineage.columns.items()
        },
        dataset=[field(column, "INDIRECT", "FILTER") for column in lineage.filtered_by],
    )

"""The OpenLineage events of an epoch, as the provider sends them."""

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest
from airflow.providers.openlineage.extractors.base import DefaultExtractor
from airflow.sdk import BaseOperator
from openlineage.client.serde import Serde

from airflow_backfill_provider.telemetry.openlineage import EpochLineageMixin, dataset_name
from tests.unit.stand_in import Lake


class Committing(EpochLineageMixin, BaseOperator):
    """An operator that commits an epoch, or none."""

    def __init__(self, *, lake: Lake | None = None, **kwargs) -> None:
        super().__init__(task_id="run_epoch", **kwargs)
        self._lake = lake

    def execute(self, context):
        if self._lake is not None:
            self._lake.epochs(1)
            backfill = self._lake.backfill
            (barrier,), (commit,) = backfill.store.log()
            self.remember_lineage(backfill, barrier, commit)


@pytest.fixture
def epoch_event(orders: Lake):
    """The event of the first epoch of a view with a filter and a computed column."""

    def run(**fields):
        lake = Lake(orders.folder, fields)
        lake.create()
        operator = Committing(lake=lake)
        operator.execute({})
        return json.loads(Serde.to_json(DefaultExtractor(operator).extract_on_complete(SimpleNamespace())))

    return run


def test_an_epoch_reads_the_upstream_and_writes_the_view(epoch_event, orders):
    """Issue part 8."""
    event = epoch_event()
    (read,), (written,) = event["inputs"], event["outputs"]
    assert (read["namespace"], read["name"]) == ("file", str(orders.folder / "orders"))
    assert (written["namespace"], written["name"]) == ("file", str(orders.folder / "small_orders"))
    assert read["facets"]["version"]["datasetVersion"] == "3"
    assert written["facets"]["version"]["datasetVersion"] == "0"
    assert read["facets"]["storage"]["storageLayer"] == "delta"
    assert [(f["name"], f["type"]) for f in read["facets"]["schema"]["fields"]] == [("order_id", "long")]
    assert read["inputFacets"]["inputStatistics"]["rowCount"] == 400
    assert written["outputFacets"]["outputStatistics"]["rowCount"] == 400
    assert event["job_facets"]["sql"]["query"] == "SELECT order_id FROM upstream"


def test_named_tables_have_their_names_in_the_catalog_beside_their_files(epoch_event, orders):
    """As Spark's own lineage of them, so that a lineage server joins both."""
    event = epoch_event(
        upstream={"table": "prod.sales.orders", "path": f"{orders.folder}/orders", "key": ["order_id"]},
        materialized_view="prod.sales.small_orders",
        view_path=f"{orders.folder}/elsewhere",
    )
    (read,), (written,) = event["inputs"], event["outputs"]
    assert (read["namespace"], read["name"]) == ("file", str(orders.folder / "orders"))
    assert (written["namespace"], written["name"]) == ("file", str(orders.folder / "elsewhere"))

    def names(dataset):
        return [
            tuple(found[k] for k in ("namespace", "name", "type"))
            for found in dataset["facets"]["symlinks"]["identifiers"]
        ]

    assert names(read) == [("prod", "sales.orders", "TABLE")]
    assert names(written) == [("prod", "sales.small_orders", "TABLE")]


def test_tables_without_a_name_have_none(epoch_event):
    event = epoch_event()
    assert "symlinks" not in event["inputs"][0]["facets"]
    assert "symlinks" not in event["outputs"][0]["facets"]


def test_columns_have_their_origins(epoch_event, orders):
    event = epoch_event(query="SELECT order_id AS id, order_id % 7 AS day FROM upstream WHERE order_id > 5")
    lineage = event["outputs"][0]["facets"]["columnLineage"]
    source = {"namespace": "file", "name": str(orders.folder / "orders"), "field": "order_id"}

    def how(fields):
        assert [{name: field[name] for name in source} for field in fields] == [source]
        return [(t["type"], t["subtype"]) for field in fields for t in field["transformations"]]

    assert {name: how(column["inputFields"]) for name, column in lineage["fields"].items()} == {
        "id": [("DIRECT", "IDENTITY")],
        "day": [("DIRECT", "TRANSFORMATION")],
    }
    assert how(lineage["dataset"]) == [("INDIRECT", "FILTER")]


def test_a_task_that_committed_nothing_reports_nothing():
    operator = Committing()
    operator.execute({})
    assert DefaultExtractor(operator).extract_on_complete(SimpleNamespace()) is None


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("/lake/orders", ("file", "/lake/orders")),
        ("s3a://bucket/lake/orders", ("s3://bucket", "lake/orders")),
        ("s3://bucket/lake/orders", ("s3://bucket", "lake/orders")),
        (
            "abfss://c@account.dfs.core.windows.net/lake/orders",
            ("abfss://c@account.dfs.core.windows.net", "lake/orders"),
        ),
        ("gs://bucket/orders", ("gs://bucket", "orders")),
        ("gs://bucket", ("gs://bucket", "/")),
    ],
)
def test_a_table_is_named_as_openlineage_names_files(place, expected):
    assert dataset_name(place) == expected


def test_without_openlineage_the_module_can_be_imported():
    program = (
        "import sys; sys.modules['openlineage'] = None; sys.modules['airflow.providers.openlineage'] = None; "
        "import airflow_backfill_provider.telemetry.openlineage; "
        "print('pyspark' in sys.modules, 'deltalake' in sys.modules)"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["False", "False"]

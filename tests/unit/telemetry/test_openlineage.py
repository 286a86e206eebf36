"""The OpenLineage events of an epoch, as the provider sends them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import pytest
from airflow.providers.openlineage import conf
from airflow.providers.openlineage.extractors.base import DefaultExtractor
from airflow.sdk import BaseOperator
from openlineage.client.serde import Serde

from airflow_backfill_provider.shapes.queries import ColumnOrigin, QueryLineage
from airflow_backfill_provider.telemetry.openlineage import (
    EpochLineageMixin,
    dataset_name,
    epoch_lineage,
    operator_lineage,
)
from tests.several import shape_of_several
from tests.shop import Shop
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
            self.collect_lineage()


@pytest.fixture
def in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenLineage is configured."""
    monkeypatch.setenv("OPENLINEAGE_URL", "http://127.0.0.1:9")
    assert not conf.is_disabled()


def in_a_fork(ask: Callable[[], object]) -> object:
    """Return what a function answers in a fork of this process, as OpenLineage's provider asks for lineage."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(writing, json.dumps(ask()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading, "rb") as answer:
        text = answer.read()
    return json.loads(text) if text else "the fork died"


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


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_the_lineage_is_whole_in_a_fork_of_the_tasks_process(orders: Lake, in_use: None):
    """deltalake panics in a fork, so the task's own process reads the tables."""
    orders.create()
    operator = Committing(lake=orders)
    operator.execute({})

    def ask() -> object:
        return json.loads(Serde.to_json(DefaultExtractor(operator).extract_on_complete(SimpleNamespace())))

    found = in_a_fork(ask)
    assert found == ask()
    assert found["inputs"][0]["facets"]["schema"]["fields"][0]["name"] == "order_id"
    assert found["outputs"][0]["facets"]["version"]["datasetVersion"] == "0"


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_fork_never_opens_a_table(orders: Lake):
    """If OpenLineage seemed to be off in the task's process, the lineage is missing, and nothing panics."""
    orders.create()
    operator = Committing(lake=orders)
    operator.execute({})
    assert in_a_fork(lambda: str(operator.get_openlineage_facets_on_complete(None))) == "None"


def test_lineage_that_cannot_be_read_does_not_fail_the_task(orders: Lake, in_use: None, caplog):
    orders.create()
    orders.epochs(1)
    backfill = orders.backfill
    (barrier,), (commit,) = backfill.store.log()
    operator = Committing()
    operator.remember_lineage(backfill, barrier, commit)
    shutil.rmtree(orders.definition["materialized_view"])
    operator.collect_lineage()
    assert "the lineage of epoch 1 is not known" in caplog.text


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


def test_each_of_several_upstreams_is_an_input_and_columns_come_from_theirs(tmp_path):
    """A column's origin begins with the name of its upstream in the query."""
    with shape_of_several():
        shop = Shop(tmp_path)
        settings = shop.create()
        barrier = shop.epoch()
        (commit,) = shop.backfill.store.commits(since_epoch=1)
        lineage = epoch_lineage(
            settings,
            barrier,
            commit,
            upstream_columns={"id": "long"},
            view_columns={"id": "long"},
            rows=2,
            other_columns={"customers": {"name": "string"}},
        )
    origins = {
        "id": ColumnOrigin(("orders.id",), unchanged=True),
        "name": ColumnOrigin(("customers.name",), unchanged=True),
    }
    facets = operator_lineage(replace(lineage, columns=QueryLineage(origins, ("orders.customer",))))
    assert [(read.name, read.facets["version"].datasetVersion) for read in facets.inputs] == [
        (f"{tmp_path}/orders", "0"),
        (f"{tmp_path}/customers", "0"),
    ]
    found = facets.outputs[0].facets["columnLineage"]
    named = {name: (column.inputFields[0].name, column.inputFields[0].field) for name, column in found.fields.items()}
    assert named == {"id": (f"{tmp_path}/orders", "id"), "name": (f"{tmp_path}/customers", "name")}
    assert [(field.name, field.field) for field in found.dataset] == [(f"{tmp_path}/orders", "customer")]

"""Jobs that name their tables in a Hive metastore (embedded, on Derby), each command in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = [pytest.mark.exhaustive, pytest.mark.spark]  # a JVM for each command

COMMAND = "from airflow_backfill_provider.cli.main import main; main()"
STATEMENTS = """
import json, sys
from airflow_backfill_provider.applications.spark_session import start_session
spark = start_session("test", master="local[1]", conf=json.loads(sys.argv[1]))
print(json.dumps([[row.asDict() for row in spark.sql(text).collect()] for text in sys.argv[2:]], default=str))
"""
UPSTREAM, VIEW = "spark_catalog.sales.orders", "spark_catalog.sales.paid_orders"


@dataclass
class Metastore:
    """A metastore in a folder, which one process at a time can open; and a job on it."""

    folder: Path

    @property
    def conf(self) -> dict[str, str]:
        return {
            "spark.sql.catalogImplementation": "hive",
            "spark.sql.warehouse.dir": f"{self.folder}/warehouse",
            "spark.hadoop.javax.jdo.option.ConnectionURL": (
                f"jdbc:derby:;databaseName={self.folder}/metastore;create=true"
            ),
            "spark.driver.extraJavaOptions": f"-Dderby.system.home={self.folder}",
            "spark.ui.enabled": "false",
        }

    @property
    def job(self) -> str:
        path = self.folder / "job.yaml"
        definition = {
            "name": "paid_orders",
            "upstream": {"table": UPSTREAM, "key": ["id"]},
            "materialized_view": VIEW,
            "query": "SELECT id, amount * 100 AS cents, name FROM upstream",
            "state": f"{self.folder}/state",
            "rate_limit": 60,
        }
        path.write_text(yaml.safe_dump(definition), encoding="utf-8")
        return str(path)

    def sql(self, *statements: str) -> list[list[dict[str, Any]]]:
        done = self._run([STATEMENTS, json.dumps(self.conf), *statements])
        assert done.returncode == 0, done.stderr
        answer: list[list[dict[str, Any]]] = json.loads(done.stdout.splitlines()[-1])
        return answer

    def command(self, name: str, *options: str) -> subprocess.CompletedProcess[str]:
        conf = [part for setting, value in self.conf.items() for part in ("--conf", f"{setting}={value}")]
        return self._run([COMMAND, name, self.job, *options, "--master", "local[1]", *conf])

    def show(self, name: str, *options: str) -> subprocess.CompletedProcess[str]:
        """Run a command that starts no Spark."""
        return self._run([COMMAND, name, self.job, *options])

    def _run(self, arguments: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", *arguments],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )


def made(name: str, rows: int, location: str) -> tuple[str, str]:
    """Return the statements that make an upstream."""
    return (
        f"CREATE TABLE {name} (id BIGINT COMMENT 'the order', amount INT, name STRING COMMENT 'of the customer') "
        f"USING delta LOCATION '{location}' TBLPROPERTIES (delta.enableChangeDataFeed = true)",
        f"INSERT INTO {name} SELECT id, int(id), concat('n', id) FROM range({rows})",
    )


def test_a_job_lives_in_a_hive_metastore(tmp_path: Path):
    """I1 and I6: created, run, read by its name, refused after the table is made anew, and rebuilt."""
    metastore = Metastore(tmp_path)
    metastore.sql("CREATE SCHEMA sales", *made(UPSTREAM, 100, f"{tmp_path}/first"))

    before = metastore.show("plan")
    assert before.returncode == 1
    assert "create it first, or give upstream.path" in before.stderr

    created = metastore.command("create")
    assert created.returncode == 0, created.stderr
    assert metastore.command("run", "--until-finished").returncode == 0
    status = json.loads(metastore.show("status", "--json").stdout)
    assert (status["finished"], status["rows_read"]) == (True, 100)

    count, columns, properties = metastore.sql(
        f"SELECT count(*) AS rows, sum(cents) AS cents FROM {VIEW}",
        f"DESCRIBE TABLE EXTENDED {VIEW}",
        f"SHOW TBLPROPERTIES {VIEW}",
    )
    assert count == [{"rows": 100, "cents": 495_000}]
    described = {column["col_name"]: column for column in columns}
    assert [described[name]["comment"] for name in ("id", "cents", "name")] == ["the order", None, "of the customer"]
    assert described["Location"]["data_type"] == f"file:{tmp_path}/warehouse/sales.db/paid_orders"
    assert described["Owner"]["data_type"]
    stored = {found["key"]: found["value"] for found in properties}
    assert stored["backfill.finished"] == "true"
    assert stored["backfill.owner"]

    metastore.sql(
        f"DROP TABLE {UPSTREAM}",
        *made(UPSTREAM, 40, f"{tmp_path}/second"),
        f"DROP TABLE {VIEW}",
        # A commit to the old table, which still lies where the job found it, makes an epoch due.
        f"INSERT INTO delta.`{tmp_path}/first` VALUES (1000, 1, 'x')",
    )
    refused = metastore.command("run")
    assert refused.returncode == 1
    assert f"{UPSTREAM} is another table" in refused.stderr
    assert "rebuild" in refused.stderr

    rebuilt = metastore.command("rebuild")
    assert rebuilt.returncode == 0, rebuilt.stderr
    assert metastore.command("run", "--until-finished").returncode == 0
    (count,) = metastore.sql(f"SELECT count(*) AS rows, max(id) AS last FROM {VIEW}")
    assert count == [{"rows": 40, "last": 39}], "the view has its name again, and the new table's rows"


def test_a_metastore_that_does_not_answer_is_named_and_may_be_tried_again(tmp_path: Path):
    program = """
import sys
from airflow_backfill_provider.core.errors import CatalogUnavailableError
from airflow_backfill_provider.spark.catalog import Catalogs
from airflow_backfill_provider.applications.spark_session import start_session
hive = {"spark.sql.catalogImplementation": "hive", "spark.hadoop.hive.metastore.uris": "thrift://127.0.0.1:9",
        "spark.hadoop.hive.metastore.connect.retries": "1", "spark.ui.enabled": "false"}
catalogs = Catalogs(start_session("test", master="local[1]", conf=hive))
for ask in (catalogs.find, catalogs.folder_of_schema):
    try:
        ask("spark_catalog.sales.orders")
    except CatalogUnavailableError as error:
        print(error.retryable, error)
"""
    done = Metastore(tmp_path)._run([program])
    answers = done.stdout.splitlines()
    assert len(answers) == 2, done.stderr
    for answer in answers:
        assert answer.startswith("True the catalog of spark_catalog.sales.orders does not answer")

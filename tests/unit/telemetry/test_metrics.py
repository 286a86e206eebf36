"""Metrics as a StatsD server receives them."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from airflow.sdk.observability import stats
from airflow.sdk.observability.metrics.stats_utils import get_stats_factory

from airflow_backfill_provider.telemetry.metrics import emit_epoch_metrics
from tests.several import shape_of_several
from tests.shop import Shop, minute
from tests.unit.stand_in import Lake

MANY = 65536


class Server:
    """A StatsD server that only listens."""

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.settimeout(10)

    def received(self) -> dict[str, str]:
        """Return all that was sent, up to the mark that comes last."""
        stats.incr("mark")
        lines: list[str] = []
        while not any(line.startswith("airflow.mark") for line in lines):
            lines += self.socket.recv(MANY).decode("utf-8").splitlines()
        return dict(line.split(":", 1) for line in lines[:-1])


@pytest.fixture
def initialize(monkeypatch):
    """Configures Airflow's statistics and starts them, as a task process does."""

    def start(**options):
        for name, value in options.items():
            monkeypatch.setenv(f"AIRFLOW__METRICS__{name.upper()}", str(value))
        stats.initialize(factory=get_stats_factory(), export_legacy_names=True)

    yield start
    monkeypatch.undo()
    stats.initialize(factory=get_stats_factory(), export_legacy_names=True)


@pytest.fixture
def server(initialize):
    """What Airflow sends its metrics to."""
    listening = Server()
    host, port = listening.socket.getsockname()
    listening.start = lambda **options: initialize(statsd_on=True, statsd_host=host, statsd_port=port, **options)
    yield listening
    listening.socket.close()


@pytest.fixture(scope="module")
def epoch(as_ran: Callable[[], Lake]):
    """A committed epoch and the status after it; one version of the upstream is new."""
    lake = as_ran()
    lake.append(range(5000, 5010))
    status = lake.backfill.status()
    return status, lake.backfill.store.commits()[-1].model_copy(
        update={"upstream_output_row_count": 7, "seconds": {"snapshot": 2.5, "changes": 1.25}}
    )


def test_an_epochs_metrics_are_tagged_with_job_and_strategy(server, epoch):
    """Issue part 8."""
    server.start(statsd_influxdb_enabled=True, legacy_names_on=False)
    emit_epoch_metrics(*epoch)
    received = server.received()
    tags = "job=small_orders,strategy=no_shuffle"
    assert float(received.pop(f"airflow.backfill.lag_seconds,{tags}").removesuffix("|g")) == epoch[0].lag_seconds > 0
    assert received == {
        f"airflow.backfill.rows_read,{tags}": "400|c",
        f"airflow.backfill.rows_forwarded,{tags}": "7|c",
        f"airflow.backfill.epoch_seconds,{tags}": "3.75|g",
        f"airflow.backfill.lag_versions,{tags}": "1|g",
        f"airflow.backfill.vnodes_completed,{tags}": "0|g",
    }


def test_legacy_names_hold_the_job_for_backends_without_tags(server, epoch):
    server.start(legacy_names_on=True)
    emit_epoch_metrics(*epoch)
    received = server.received()
    assert received["airflow.backfill.small_orders.rows_read"] == received["airflow.backfill.rows_read"] == "400|c"
    assert received["airflow.backfill.small_orders.lag_versions"] == "1|g"
    assert len(received) == 12


def test_the_reference_names_every_metric(server, epoch):
    page = (Path(__file__).parents[3] / "docs" / "reference" / "metrics-and-lineage.md").read_text(encoding="utf-8")
    server.start(legacy_names_on=False)
    emit_epoch_metrics(*epoch)
    assert [name for name in server.received() if f"| `{name.removeprefix('airflow.')}` |" not in page] == []


def test_of_several_upstreams_the_lag_is_that_of_the_furthest_one(server, epoch, tmp_path):
    with shape_of_several():
        shop = Shop(tmp_path)
        shop.create()
        shop.epoch()
        shop.customer(3, 3)
        status = shop.backfill.status(lambda: minute(5))
    server.start(legacy_names_on=False)
    emit_epoch_metrics(status, epoch[1])
    received = server.received()
    assert received["airflow.backfill.lag_versions"] == "1|g"
    assert float(received["airflow.backfill.lag_seconds"].removesuffix("|g")) == 120


def test_an_unknown_lag_is_not_sent(server, epoch):
    server.start()
    status, commit = epoch
    emit_epoch_metrics(status.model_copy(update={"lag_seconds": None}), commit)
    assert not [name for name in server.received() if "lag_seconds" in name]


def test_a_backend_that_fails_does_not_fail_the_task(initialize, epoch, caplog):
    initialize(statsd_on=True, statsd_custom_client_path="nowhere.Client")
    emit_epoch_metrics(*epoch)
    assert "the metrics of epoch 1 of job small_orders were not sent" in caplog.text

"""Fixtures of the tests of the protocol and of the Airflow side: real control tables, no JVM, no Airflow database."""

from __future__ import annotations

import tests.airflow_home  # noqa: F401  # isort: skip - before anything of Airflow

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk._shared.secrets_masker import reset_secrets_masker

from airflow_backfill_provider.operators.base import SparkBackfillOperator
from tests.builders import Template
from tests.property.backfilling import Prepared
from tests.unit import lifeline
from tests.unit.stand_in import ROWS, Lake, StandInSpark


@pytest.fixture(autouse=True)
def _nothing_masked() -> None:
    """Forget the secrets of other tests. A secret that another one begins with would leave the rest of it unmasked."""
    reset_secrets_masker()


@pytest.fixture(scope="session")
def four_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an upstream in four files. Tests copy it, which is faster than writing it."""
    made = Lake(tmp_path_factory.mktemp("four_files"))
    for first in range(0, ROWS, ROWS // 4):
        made.append(range(first, first + ROWS // 4))
    return made.folder


@pytest.fixture(scope="session")
def prepare(tmp_path_factory: pytest.TempPathFactory, four_files: Path) -> Callable[..., Callable[[], Lake]]:
    """
    Creates a job, and runs some epochs, once; what it returns gives the job back as they left it.

    For tests after which nothing goes on that might look at the restored tables, such as a trigger or a supervisor.
    """

    def make(epochs: int = 0, **fields: Any) -> Callable[[], Lake]:
        def fill(folder: Path) -> None:
            shutil.copytree(four_files, folder, dirs_exist_ok=True)
            lake = Lake(folder, fields)
            lake.create()
            lake.epochs(epochs)

        template = Template(tmp_path_factory.mktemp("prepared"), fill)
        return lambda: Lake(template.restore(), dict(fields))

    return make


@pytest.fixture
def orders(lake: Path, four_files: Path) -> Lake:
    """An upstream in four files, and a job over it that is not created."""
    shutil.copytree(four_files, lake, dirs_exist_ok=True)
    return Lake(lake)


@pytest.fixture(scope="session")
def as_created(prepare: Callable[..., Callable[[], Lake]]) -> Callable[[], Lake]:
    """Restores the job as it was created."""
    return prepare()


@pytest.fixture(scope="session")
def as_ran(prepare: Callable[..., Callable[[], Lake]]) -> Callable[[], Lake]:
    """Restores the job as it was after its first epoch."""
    return prepare(epochs=1)


@pytest.fixture
def created(orders: Lake) -> Lake:
    """The job, created."""
    orders.create()
    return orders


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> StandInSpark:
    """The stand-in that the operators submit to."""
    stand_in = StandInSpark()
    monkeypatch.setattr(
        SparkBackfillOperator,
        "run_application",
        lambda _, backfill, name, *submitted, **more: stand_in.run(backfill, *submitted, **more),
    )
    return stand_in


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Makes a connection exist; returns its id."""

    def make(conn_id: str = "lake", conn_type: str = "airflow_backfill", **fields: Any) -> str:
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps({"conn_type": conn_type, **fields}))
        return conn_id

    return make


@pytest.fixture(name="lifeline")
def _lifeline(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The connection that keeps the programs of :mod:`tests.unit.lifeline` alive."""
    with lifeline.lifeline() as port:
        monkeypatch.setenv(lifeline.VARIABLE, port)
        yield


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    return Prepared(tmp_path_factory.mktemp("prepared"), range(10), rate_limit=5)


@pytest.fixture
def backfilling(prepared):
    """A created job over the orders 0 to 9, five rows an epoch."""
    return prepared.restore()


@pytest.fixture
def store(backfilling):
    return backfilling.store

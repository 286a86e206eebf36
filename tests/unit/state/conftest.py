"""Control tables: those of a created job, and one of numbers."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.state.control_table import ControlTable
from airflow_backfill_provider.state.store import BackfillStore
from tests.builders import Template, settings_of
from tests.unit.state.counted_table import SCHEMA


@pytest.fixture(scope="module")
def created(tmp_path_factory):
    return Template(
        tmp_path_factory.mktemp("created"), lambda place: BackfillStore(str(place / "state")).create(settings_of())
    )


@pytest.fixture
def store(created):
    """The control tables of a created job."""
    return BackfillStore(str(created.restore() / "state"))


@pytest.fixture
def table(lake):
    """An empty control table of numbers."""
    made = ControlTable(str(lake / "control"), SCHEMA)
    made.create()
    return made

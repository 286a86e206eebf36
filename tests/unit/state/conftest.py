"""The control tables of a created job."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.state.store import BackfillStore
from tests.builders import Template, settings_of


@pytest.fixture(scope="module")
def created(tmp_path_factory):
    return Template(
        tmp_path_factory.mktemp("created"), lambda place: BackfillStore(str(place / "state")).create(settings_of())
    )


@pytest.fixture
def store(created):
    """The control tables of a created job."""
    return BackfillStore(str(created.restore() / "state"))

"""Change logs."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.sources.shared.change_log.table import ChangeLog
from tests.builders import Template
from tests.unit.sources.shared.change_log.histories import HISTORY, ORIGIN, minute


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    def fill(folder):
        log = ChangeLog(str(folder / "log"))
        log.create(ORIGIN, 10, at=minute(10))
        log.land(HISTORY[:4], after=10, through=20)
        log.land(HISTORY[4:], after=20, through=30)

    return Template(tmp_path_factory.mktemp("logs"), fill)


@pytest.fixture
def log(made):
    """A log that is landed through 30."""
    return ChangeLog(str(made.restore() / "log"))


@pytest.fixture
def empty(lake):
    """A log that begins after 10."""
    log = ChangeLog(str(lake / "log"))
    log.create(ORIGIN, 10, at=minute(10))
    return log

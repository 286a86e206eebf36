"""
What the tests of creating have in common: a job that is not created yet, and the same job created.

Each test module assigns the fixtures it needs to their own names, because pytest looks for fixtures in the module.
"""

from __future__ import annotations

import pytest

from tests.dying import Died
from tests.property.backfilling import Backfilling, Prepared


@pytest.fixture
def backfilling(lake):
    """A job over ten orders, not created yet, five rows an epoch."""
    made = Backfilling(lake, rate_limit=5)
    made.orders.add(*range(10))
    return made


def files_of(lake):
    return sorted(str(path.relative_to(lake)) for path in lake.rglob("*") if path.is_file())


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    return Prepared(tmp_path_factory.mktemp("prepared"), range(10), rate_limit=5)


@pytest.fixture
def created(prepared):
    """The same job, created."""
    return prepared.restore()


def upstream(backfilling, **fields):
    return {"upstream": {"path": backfilling.orders.path, "key": ["id"], **fields}}


def _die(*_, **__):
    raise Died

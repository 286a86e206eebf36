"""Upstreams of the tests: real Delta tables, whose logs are read without a JVM."""

from __future__ import annotations

import pytest
from deltalake import DeltaTable

from tests.builders import (
    Orders,
    Template,
    commit_file,
    committed_at,
)
from tests.unit.sources.delta.delta_tables import at_minute


@pytest.fixture
def orders(lake):
    """An upstream whose path has spaces, quotes, a backtick, a hash and unicode."""
    return Orders(lake)


@pytest.fixture(scope="module")
def six_versions(tmp_path_factory):
    def make(place):
        orders = Orders(place)
        for i in range(6):
            orders.add(i)
            committed_at(orders.path, i, at_minute(i))

    return Template(tmp_path_factory.mktemp("dated"), make)


@pytest.fixture
def every_minute(six_versions):
    """Six versions, committed at the minutes 0 to 5."""
    return Orders(six_versions.restore())


@pytest.fixture(scope="module")
def ten_versions(tmp_path_factory):
    def make(place):
        orders = Orders(place)
        for i in range(10):
            orders.add(i)
        DeltaTable(orders.path).create_checkpoint()
        for version in range(5):
            commit_file(orders.path, version).unlink()

    return Template(tmp_path_factory.mktemp("cleaned"), make)


@pytest.fixture
def cleaned(ten_versions):
    """A table with the versions 0 to 9. The log entries of 0 to 4 were cleaned up after a checkpoint."""
    return Orders(ten_versions.restore()).table

"""The supervisor of an application."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import StorageUnavailableError
from airflow_backfill_provider.runtime.supervisor import Order, Supervisor


def test_a_sign_of_life_that_cannot_be_written_ends_nothing(lake, tmp_path):
    (lake / "state").write_text("a file in its place", encoding="utf-8")
    order = Order(state=str(lake / "state"), name="epoch-1", attempt="a", command=["true"], environment={}, log="log")
    supervisor = Supervisor(order)

    supervisor._write(supervisor._current())

    with pytest.raises(StorageUnavailableError):
        supervisor._records.write(supervisor._current())

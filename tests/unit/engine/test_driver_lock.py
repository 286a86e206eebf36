"""The lock of a local job: what stands in its way is said by a name."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import StorageUnavailableError
from airflow_backfill_provider.engine.driver_lock import driver_lock


def test_a_folder_that_cannot_be_made_is_a_storage_that_refuses(tmp_path):
    (tmp_path / "state").write_text("a file")
    with (
        pytest.raises(StorageUnavailableError, match="state/job cannot be reached"),
        driver_lock(tmp_path / "state/job"),
    ):
        pass


def test_the_block_may_fail_by_an_error_of_its_own(tmp_path):
    with pytest.raises(OSError, match="its own"), driver_lock(tmp_path / "job"):
        raise OSError("its own")

"""The description of the pages for Airflow is true, and cheap to import."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

import pytest
from airflow.api_fastapi.core_api.datamodels.plugins import ReactAppResponse

from airflow_backfill_provider.plugin.airflow_plugin import URL_PREFIX, BackfillPlugin
from airflow_backfill_provider.plugin.app import STATIC


def test_airflow_finds_it_through_its_entry_point():
    (entry,) = [entry for entry in entry_points(group="airflow.plugins") if "backfill" in entry.value]

    assert entry.load() is BackfillPlugin


@pytest.mark.slow
def test_it_imports_nothing_slow():
    """It is imported in every task's process."""
    heavy = {"fastapi", "deltalake", "pyarrow", "starlette", "pyspark"}
    program = (
        "import sys, airflow.plugins_manager; before = set(sys.modules); "
        "import airflow_backfill_provider.plugin.airflow_plugin; print(*(set(sys.modules) - before))"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    imported = set(answer.stdout.splitlines()[-1].split())
    assert "airflow_backfill_provider.plugin.airflow_plugin" in imported
    assert not {name.partition(".")[0] for name in imported} & heavy


def test_every_page_has_an_address_and_files_of_its_own():
    pages = [ReactAppResponse(**page) for page in BackfillPlugin.react_apps]

    assert [page.destination for page in pages] == ["nav", "dag", "dag_run", "task_instance"]
    assert len({page.url_route for page in pages}) == len(pages)
    for page in pages:
        for address in (page.bundle_url, page.icon, page.icon_dark_mode):
            prefix, static, name = str(address).split("/")
            assert (f"/{prefix}", static) == (URL_PREFIX, "static")
            assert (STATIC / name).exists()

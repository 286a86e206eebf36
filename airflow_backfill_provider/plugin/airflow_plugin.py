"""
The Airflow plugin that adds the pages.

Airflow imports this module in every process, even in each task's, so it imports nothing slow. The API server creates
the API of the pages on the first request.
"""

from __future__ import annotations

from typing import Any

from airflow.plugins_manager import AirflowPlugin

from airflow_backfill_provider.plugin.lazy_app import LazyApp

URL_PREFIX = "/backfill"


def _page(name: str, destination: str, url_route: str, **more: Any) -> dict[str, Any]:
    # A relative path, because Airflow may be served under a path.
    static = f"{URL_PREFIX.lstrip('/')}/static"
    return {
        "name": name,
        "bundle_url": f"{static}/pages.js",
        "destination": destination,
        "url_route": url_route,
        "icon": f"{static}/icon.svg",
        "icon_dark_mode": f"{static}/icon_dark.svg",
        **more,
    }


class BackfillPlugin(AirflowPlugin):
    """Adds a page with all backfills, and tabs with the backfills of a DAG, a DAG run and a task run."""

    name = "backfill"
    fastapi_apps = [  # noqa: RUF012 - as Airflow declares it
        {"app": LazyApp(), "url_prefix": URL_PREFIX, "name": "Backfill"}
    ]
    react_apps = [  # noqa: RUF012
        _page("Backfills", "nav", "backfills", nav_top_level=True),
        _page("Backfill", "dag", "backfill"),
        _page("Backfill", "dag_run", "backfill-run"),
        _page("Backfill", "task_instance", "backfill-task"),
    ]

"""The API is made with the first request."""

from __future__ import annotations

import asyncio

import pytest

from airflow_backfill_provider.plugin import lazy_app
from airflow_backfill_provider.plugin.app import STATIC
from airflow_backfill_provider.plugin.lazy_app import LazyApp


async def answers(*paths):
    """Return the status of each answer."""
    app, sent = LazyApp(), []

    async def receive():
        return {"type": "http.disconnect"}

    async def send(message):
        if message["type"] == "http.response.start":
            sent.append(message["status"])

    for path in paths:
        scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "root_path": ""}
        await app({**scope, "query_string": b"", "headers": [], "http_version": "1.1", "scheme": "http"}, receive, send)
    return sent


@pytest.fixture(autouse=True)
def _forgotten():
    lazy_app._app.cache_clear()
    yield
    lazy_app._app.cache_clear()


def test_it_serves_the_api_that_is_made_once():
    file = next(STATIC.glob("*.js")).name
    assert lazy_app._app.cache_info().currsize == 0
    assert asyncio.run(answers(f"/static/{file}", "/nowhere", f"/static/{file}")) == [200, 404, 200]
    assert lazy_app._app.cache_info().misses == 1

"""An ASGI app that is created on its first request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from functools import cache
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class LazyApp:
    """The API of the pages; it costs nothing in processes that never serve it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        # Use a thread, because importing deltalake would block the event loop for a second.
        app = await asyncio.to_thread(_app)
        await app(scope, receive, send)


@cache
def _app() -> App:
    from airflow_backfill_provider.plugin.app import create_app

    return create_app()

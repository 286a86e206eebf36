"""A notifier that posts JSON to a URL, which most chats and pagers accept."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk import BaseHook, BaseNotifier, Connection, Context
from airflow.sdk.log import mask_secret

from airflow_backfill_provider.core.errors import BackfillError
from airflow_backfill_provider.notifications.delivery import TEMPLATE_NAME

TIMEOUT = (5.0, 15.0)
"""Seconds to connect, and to wait for the answer; a callback must not block its task."""


class WebhookError(BackfillError):
    """A webhook could not be reached, or refused the event."""

    retryable = True


class WebhookNotifier(BaseNotifier):
    """
    Posts an event to a webhook. (templated: body)

    The URL consists of the connection's schema, host and port, and the ``path`` in its extra. Secrets belong in the
    connection: a login and a password are sent as basic authentication, a password without a login as a bearer token.
    ``path`` may also be a secret, as in many chat services. Error messages contain none of these values.

    :param http_conn_id: a connection of type ``http``.
    :param body: what to post, such as ``{"text": "{{ backfill.text }}"}``; by default the whole event.
    """

    template_fields: Sequence[str] = ("body",)

    def __init__(
        self, *, http_conn_id: str = "backfill_webhook", body: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.http_conn_id = http_conn_id
        self.body: Any = body

    def notify(self, context: Context) -> None:
        """
        Post the event.

        :raises WebhookError: if the webhook did not accept it.
        """
        import requests

        event: Any = dict(context).get(TEMPLATE_NAME)
        connection = BaseHook.get_connection(self.http_conn_id)
        try:
            # Only the status is of interest, so the body is not read: it may be of any size.
            with requests.post(
                _url(connection),
                json=event if self.body is None else self.body,
                headers=_headers(connection),
                auth=(connection.login, connection.password or "") if connection.login else None,
                timeout=TIMEOUT,
                allow_redirects=False,
                stream=True,
            ) as response:
                answer = response
        except requests.RequestException as error:
            # The error's text holds the URL, which may be secret.
            raise WebhookError(
                f"the webhook of connection {self.http_conn_id} cannot be reached ({type(error).__name__}); check the "
                "connection's host and port"
            ) from None
        if not answer.ok or answer.is_redirect:
            raise WebhookError(
                f"the webhook of connection {self.http_conn_id} answered {answer.status_code}; check the connection's "
                "path and credentials, and whether it accepts such a body"
            )

    async def async_notify(self, context: Context) -> None:
        """Post the event, in a thread."""
        await asyncio.to_thread(self.notify, context)


def _url(connection: Connection) -> str:
    host = connection.host or ""
    base = host if "://" in host else f"{connection.schema or 'https'}://{host}"
    port = f":{connection.port}" if connection.port else ""
    path = str(connection.extra_dejson.get("path") or "")
    if path:
        mask_secret(path)
    return f"{base.rstrip('/')}{port}/{path.lstrip('/')}"


def _headers(connection: Connection) -> dict[str, str]:
    bearer = connection.password if not connection.login else None
    return {"Authorization": f"Bearer {bearer}"} if bearer else {}

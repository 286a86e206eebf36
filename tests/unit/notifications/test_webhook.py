"""Webhooks on a real server: what they get, and that a failure reveals nothing."""

from __future__ import annotations

import asyncio
import base64
import json

import pytest
from airflow.sdk import Connection
from airflow.sdk._shared.secrets_masker import redact

from airflow_backfill_provider.notifications.webhook import TIMEOUT, WebhookError, WebhookNotifier, _headers, _url

EVENT = {"kind": "finished", "job": "orders", "message": "it is finished", "text": "orders finished: it is finished"}


@pytest.fixture
def server(connection, webhooks):
    """Makes the connection to the server."""

    def make(**fields):
        extra = json.dumps(fields.pop("extra", {}))
        return connection("hook", "http", schema="http", host="127.0.0.1", port=webhooks.port, extra=extra, **fields)

    return make


def test_a_webhook_gets_the_whole_event(server, webhooks):
    WebhookNotifier(http_conn_id=server())({"backfill": EVENT})
    ((path, headers, body),) = webhooks.posts
    assert (path, body, headers["Content-Type"]) == ("/", EVENT, "application/json")
    assert "Authorization" not in headers


def test_a_custom_body_is_a_template(server, webhooks):
    notifier = WebhookNotifier(
        http_conn_id=server(), body={"text": "{{ backfill.text }}", "to": ["#{{ backfill.job }}"]}
    )
    notifier({"backfill": EVENT})
    assert webhooks.posts[0][2] == {"text": "orders finished: it is finished", "to": ["#orders"]}


def test_the_secret_comes_from_the_connection(server, webhooks):
    WebhookNotifier(http_conn_id=server(extra={"path": "/services/very-secret-path"}))({"backfill": EVENT})
    WebhookNotifier(http_conn_id=server(password="token"))({"backfill": EVENT})
    WebhookNotifier(http_conn_id=server(login="me", password="word"))({"backfill": EVENT})
    assert webhooks.posts[0][0] == "/services/very-secret-path"
    assert redact("at /services/very-secret-path") == "at ***"
    assert webhooks.posts[1][1]["Authorization"] == "Bearer token"
    assert webhooks.posts[2][1]["Authorization"] == f"Basic {base64.b64encode(b'me:word').decode()}"


def test_a_login_without_a_password_is_sent_with_an_empty_one(server, webhooks):
    WebhookNotifier(http_conn_id=server(login="me"))({"backfill": EVENT})
    assert webhooks.posts[0][1]["Authorization"] == f"Basic {base64.b64encode(b'me:').decode()}"


def test_a_login_keeps_its_password_out_of_the_header_of_tokens(connection):
    """The requests library would overwrite it with basic authentication, but it must not get it."""
    connections = [{"password": "word"}, {"login": "me", "password": "word"}, {"login": "me"}, {}]
    headers = [_headers(Connection(conn_id="hook", **fields)) for fields in connections]
    assert headers == [{"Authorization": "Bearer word"}, {}, {}, {}]


@pytest.mark.parametrize(
    ("fields", "url"),
    [
        ({"host": "chat.example"}, "https://chat.example/"),
        ({"host": "chat.example", "schema": "http", "port": 81}, "http://chat.example:81/"),
        ({"host": "http://chat.example/", "schema": "https"}, "http://chat.example/"),
        ({"host": "chat.example", "extra": '{"path": "/hooks/1"}'}, "https://chat.example/hooks/1"),
    ],
)
def test_a_secret_goes_over_tls_unless_the_connection_says_otherwise(fields, url):
    assert _url(Connection(conn_id="hook", **fields)) == url


def test_a_server_that_never_answers_does_not_block_the_task(server, webhooks, monkeypatch):
    """A callback runs in the task's own process."""
    assert max(TIMEOUT) <= 15
    monkeypatch.setattr("airflow_backfill_provider.notifications.webhook.TIMEOUT", (1.0, 0.1))
    webhooks.delay = 0.3
    with pytest.raises(WebhookError, match=r"cannot be reached \(ReadTimeout\)") as caught:
        WebhookNotifier(http_conn_id=server())({"backfill": EVENT})
    assert caught.value.retryable


def test_an_answer_without_an_end_is_not_read(server, webhooks):
    webhooks.endless = True
    WebhookNotifier(http_conn_id=server())({"backfill": EVENT})
    assert len(webhooks.posts) == 1


@pytest.mark.parametrize("answer", [302, 403, 500])
def test_a_refused_webhook_is_reported_without_its_address(server, webhooks, answer):
    webhooks.answer = answer
    conn_id = server(extra={"path": "very-secret-path"})
    with pytest.raises(WebhookError, match=f"connection hook answered {answer}; check") as caught:
        WebhookNotifier(http_conn_id=conn_id)({"backfill": EVENT})
    assert "very-secret" not in str(caught.value)
    assert len(webhooks.posts) == 1, "a redirection is not followed"


def test_an_unreachable_server_is_named_by_its_connection_only(connection):
    conn_id = connection("hook", "http", host="http://127.0.0.1", port=1, extra='{"path": "very-secret-path"}')
    with pytest.raises(WebhookError, match="connection hook cannot be reached") as caught:
        WebhookNotifier(http_conn_id=conn_id)({"backfill": EVENT})
    assert "very-secret" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_a_webhook_can_be_awaited(server, webhooks):
    async def send():
        await WebhookNotifier(http_conn_id=server(), context={"backfill": EVENT})

    asyncio.run(send())
    assert webhooks.posts[0][2] == EVENT

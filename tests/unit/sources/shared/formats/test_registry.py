"""What the client of a schema registry asks, and what it says of the answers; a small server has the API."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Iterator

import pytest
import tenacity.nap

from airflow_backfill_provider.core.errors import InvalidJobError, RegistryRefusedError, RegistryUnavailableError
from airflow_backfill_provider.sources.shared.formats import registry
from airflow_backfill_provider.sources.shared.formats.registry import RegisteredSchema, schema_registry
from tests.certificates import Authority
from tests.ports import free_port
from tests.schema_registry import NO_SCHEMA, NO_SUBJECT, RegistryHandler, RegistryServer, registry_server


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    """A running registry."""
    with registry_server() as running:
        yield running


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(tenacity.nap.time, "sleep", lambda _: None)


@pytest.fixture
def connection(monkeypatch):
    """Sets the connection ``schemas``."""

    def set_connection(**fields):
        monkeypatch.setenv("AIRFLOW_CONN_SCHEMAS", json.dumps({"conn_type": "http", **fields}))
        return schema_registry("schemas")

    return set_connection


@pytest.fixture
def client(server, connection):
    """The client of the server."""
    return connection(host="127.0.0.1", port=server.server_port)


def test_a_schema_is_asked_for_once(server, client):
    server.answer("/schemas/ids/7", (200, {"schema": '"int"'}))
    assert client.schema(7) == client.schema(7) == RegisteredSchema(7, "AVRO", '"int"')
    assert server.asked == [("/schemas/ids/7", None)]


def test_a_schema_may_be_of_another_language(server, client):
    server.answer("/schemas/ids/7", (200, {"schema": "message", "schemaType": "PROTOBUF", "references": []}))
    assert client.schema(7) == RegisteredSchema(7, "PROTOBUF", "message")


def test_a_schema_of_protobuf_is_its_descriptor(server, client):
    path = "/schemas/ids/7?format=serialized"
    server.answer(path, (200, {"schema": "AAE=", "schemaType": "PROTOBUF", "references": [{"name": "other.proto"}]}))
    assert client.protobuf(7) == client.protobuf(7) == b"\x00\x01"
    assert len(server.asked) == 1
    server.answer("/schemas/ids/8?format=serialized", (200, {"schema": '"int"'}), NO_SCHEMA)
    assert client.protobuf(8) is None
    assert client.protobuf(8) is None


def test_a_registry_that_does_not_serialize_schemas_is_named(server, client):
    server.answer("/schemas/ids/7?format=serialized", (200, {"schema": "message Order {}", "schemaType": "PROTOBUF"}))
    with pytest.raises(RegistryRefusedError, match="schemas: .* does not return serialized schemas"):
        client.protobuf(7)


def test_an_unknown_schema_is_none(server, client):
    server.answer("/schemas/ids/9", NO_SCHEMA, (200, {"schema": '"int"'}))
    assert client.schema(9) is None
    assert client.schema(9) == RegisteredSchema(9, "AVRO", '"int"'), "it may be registered a moment later"


def test_the_latest_version_of_a_subject_is_known_by_its_id(server, client):
    server.answer("/subjects/a%2Fb%20c/versions/latest", (200, {"id": 7, "version": 3, "schema": '"int"'}))
    assert client.latest("a/b c") == client.schema(7) == RegisteredSchema(7, "AVRO", '"int"')
    assert len(server.asked) == 1


def test_an_unknown_subject_is_refused(server, client):
    server.answer("/subjects/orders-value/versions/latest", NO_SUBJECT)
    with pytest.raises(RegistryRefusedError, match="schemas: the schema registry has no subject orders-value"):
        client.latest("orders-value")


def test_a_schema_of_several_is_refused(server, client):
    server.answer("/schemas/ids/7", (200, {"schema": '"a.B"', "references": [{"name": "a.B"}]}))
    with pytest.raises(RegistryRefusedError, match="schema 7 refers to other schemas"):
        client.schema(7)


@pytest.mark.parametrize("status", [500, 503, 429])
def test_a_server_that_is_busy_is_asked_again(server, client, status):
    server.answer("/schemas/ids/7", (status, {}), (status, {}), (200, {"schema": '"int"'}))
    assert client.schema(7) is not None
    server.answer("/schemas/ids/8", (status, {"message": "s3cret"}))
    with pytest.raises(RegistryUnavailableError, match=f"schemas: the schema registry answers with status {status}"):
        client.schema(8)
    assert len(server.asked) == 3 + 4


@pytest.mark.parametrize("status", [401, 403])
def test_a_login_that_is_refused_is_not_tried_again(server, connection, status):
    client = connection(host="127.0.0.1", port=server.server_port, login="ä", password="s3cret:")
    server.answer("/schemas/ids/7", (status, {"error_code": status, "message": "s3cret"}))
    with pytest.raises(
        RegistryRefusedError, match="refuses the login .*check the connection's login and password"
    ) as caught:
        client.schema(7)
    assert "s3cret" not in f"{caught.value}{client!r}"
    assert server.asked == [("/schemas/ids/7", "Basic " + base64.b64encode("ä:s3cret:".encode()).decode())]


@pytest.mark.parametrize(
    "answer",
    [
        (404, "<html>"),
        (404, {"message": "no page"}),
        (404, {"error_code": 404, "message": "HTTP 404 Not Found"}),
        (404, ["no page"]),
        (302, "https://elsewhere.example/schemas/ids/7"),
        (400, {}),
        (200, "<html>"),
        (200, ["schema"]),
        (200, {"schema": 5}),
    ],
)
def test_another_server_is_no_registry(server, client, answer):
    server.answer("/schemas/ids/7", answer)
    with pytest.raises(RegistryRefusedError, match="check the connection's host, port and path"):
        client.schema(7)
    assert len(server.asked) == 1


def test_a_registry_that_does_not_answer_may_answer_later(connection):
    client = connection(host="127.0.0.1", port=free_port(), login="reader", password="s3cret")
    with pytest.raises(
        RegistryUnavailableError, match="does not answer .Connection refused.; nothing is lost"
    ) as caught:
        client.schema(7)
    assert "s3cret" not in str(caught.value)


def test_a_registry_that_is_silent_does_not_answer(server, client, monkeypatch):
    monkeypatch.setattr(registry, "REQUEST_SECONDS", 0.05)
    wait = threading.Event()
    monkeypatch.setattr(RegistryHandler, "do_GET", lambda _: wait.wait(5))
    with pytest.raises(RegistryUnavailableError, match="no answer within 0.05 s"):
        client.schema(7)
    wait.set()


# --- TLS ------------------------------------------------------------------------------------------


@pytest.fixture
def authority(tmp_path) -> Authority:
    """Who signs the certificates."""
    return Authority(tmp_path, "authority")


@pytest.fixture
def secure(server, authority):
    """The server with TLS."""
    files = authority.issue("registry", host="127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.answer("/schemas/ids/7", (200, {"schema": '"int"'}))
    return server


def test_a_certificate_is_verified(secure, connection, authority, monkeypatch):
    client = connection(host="https://127.0.0.1", port=secure.server_port, extra={"verify": False})
    with pytest.raises(RegistryRefusedError, match="certificate is not trusted .*SSL_CERT_FILE"):
        client.schema(7)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
    assert client.schema(7) is not None


# --- answers of any size --------------------------------------------------------------------------


@pytest.mark.parametrize("status", [200, 404])
def test_a_long_answer_is_refused_and_not_held(server, client, monkeypatch, status):
    monkeypatch.setattr(registry, "LONGEST_ANSWER", 1 << 20)
    server.answer("/schemas/ids/7", (status, {"schema": "x" * (1 << 20)}))
    with pytest.raises(RegistryRefusedError, match="schemas: the schema registry's answer is longer than 1 MiB"):
        client.schema(7)


def test_an_answer_that_takes_too_long_is_given_up(server, client, monkeypatch):
    monkeypatch.setattr(registry, "ANSWER_SECONDS", -1)
    server.answer("/schemas/ids/7", (200, {"schema": '"int"'}))
    with pytest.raises(RegistryUnavailableError, match="does not answer"):
        client.schema(7)


def test_an_answer_that_nests_too_deep_is_no_registrys(server, client, monkeypatch):
    monkeypatch.setattr(registry.SchemaRegistry, "_answer", lambda *_: (200, b"[" * 100_000))
    with pytest.raises(RegistryRefusedError, match="what answers is no schema registry"):
        client.schema(7)


# --- connections ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "address"),
    [
        ({"host": "registry"}, "http://registry"),
        ({"host": "registry", "port": 8081}, "http://registry:8081"),
        ({"host": "registry", "schema": "https"}, "https://registry"),
        ({"host": "registry", "conn_type": "https"}, "https://registry"),
        ({"host": "https://registry/", "port": 8081, "schema": "http"}, "https://registry:8081"),
        ({"host": "https://registry:1/apis/ccompat/v7"}, "https://registry:1/apis/ccompat/v7"),
        ({"host": "http://[::1]", "port": 8081}, "http://[::1]:8081"),
    ],
)
def test_a_connection_says_where_the_registry_is(connection, fields, address):
    assert connection(**fields).address == address


def test_a_connection_may_be_a_uri(monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_SCHEMAS", "http://reader:s3cret@registry:8081/https")
    found = schema_registry("schemas")
    assert found.address == "https://registry:8081"
    assert found.authorization


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({}, "no usable host"),
        ({"host": "ftp://registry"}, "no usable host"),
        ({"host": "https://reader:s3cret@registry"}, "the login into their own fields"),
        ({"host": "https://registry?x=1"}, "no usable host"),
        ({"host": "https://registry:port"}, "no usable host"),
        ({"conn_type": "kafka", "host": "registry"}, "has the type kafka, but needs http"),
    ],
)
def test_a_connection_that_is_no_registrys_is_refused(connection, fields, says):
    with pytest.raises(InvalidJobError, match=says) as caught:
        connection(**fields)
    assert "s3cret" not in str(caught.value)


def test_a_connection_that_is_missing_is_named():
    with pytest.raises(InvalidJobError, match="there is no connection schemas; .*AIRFLOW_CONN_SCHEMAS"):
        schema_registry("schemas")

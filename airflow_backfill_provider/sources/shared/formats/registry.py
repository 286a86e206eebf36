"""
Asks a schema registry for schemas, over the REST API of Confluent's, which others have, too.

A schema never changes under its id, so each is asked for once. Messages have no answers of the registry in them and no
credentials.
"""

from __future__ import annotations

import base64
import json
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPException, IncompleteRead
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, OpenerDirector, Request, build_opener

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from airflow_backfill_provider.core.errors import InvalidJobError, RegistryRefusedError, RegistryUnavailableError
from airflow_backfill_provider.core.job.connections import ConnectionFields, connection_fields, variable_of

REQUEST_SECONDS = 15
"""How long a registry may be silent."""

ANSWER_SECONDS = 60
"""How long a registry may take for an answer, so that it cannot hold a task by sending a byte now and then."""

LONGEST_ANSWER = 8 << 20
"""The longest answer in bytes. Registries accept schemas of one megabyte by default."""

KIND = "http"
"""The type of the connections, as Airflow's provider names it."""

AVRO = "AVRO"
"""The kind of schema that a registry means where it names none."""

PROTOBUF = "PROTOBUF"

_ATTEMPTS = 4
_SECURE = "https"
_SCHEMES = (KIND, _SECURE)
_ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"

_OK = 200
_NOT_FOUND = 404
_MISSING = ("40401", "40402", "40403")
"""A registry's own codes: there is no such subject, version or schema."""

_TOO_MANY = 429
_UNAUTHORIZED = (401, 403)
_SERVER_ERROR = 500


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """
    A schema of a registry.

    :param schema_id: its id.
    :param kind: its language, such as ``AVRO``.
    :param text: the schema.
    """

    schema_id: int
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class SchemaRegistry:
    """
    A schema registry.

    :param connection_id: the id of its connection, for messages.
    :param address: where its API is.
    :param authorization: the header with which to log in; empty if there is no login.

    It remembers the schemas that it found, and asks again for the others.
    """

    connection_id: str
    address: str
    authorization: str = field(default="", repr=False)
    _known: dict[int, RegisteredSchema] = field(default_factory=dict, repr=False, compare=False)
    _serialized: dict[int, bytes] = field(default_factory=dict, repr=False, compare=False)

    def schema(self, schema_id: int) -> RegisteredSchema | None:
        """
        Return a schema by its id.

        :returns: ``None`` if the registry has no such schema.
        :raises RegistryUnavailableError: if the registry does not answer.
        :raises RegistryRefusedError: if it refuses the request, or the schema consists of several.
        """
        if schema_id not in self._known:
            found = self._ask(f"schemas/ids/{schema_id}")
            if found is None:
                return None
            self._known[schema_id] = self._schema(schema_id, found)
        return self._known[schema_id]

    def protobuf(self, schema_id: int) -> bytes | None:
        """
        Return the descriptor of a Protobuf schema's file by the schema's id, without what it imports.

        :returns: ``None`` if the registry has no such schema, or it is of another language.
        :raises RegistryUnavailableError: if the registry does not answer.
        :raises RegistryRefusedError: if it refuses the request.
        """
        if schema_id in self._serialized:
            return self._serialized[schema_id]
        found = self._ask(f"schemas/ids/{schema_id}?format=serialized")
        if found is None or found.get("schemaType") != PROTOBUF:
            return None
        try:
            self._serialized[schema_id] = base64.b64decode(str(found.get("schema")), validate=True)
        except ValueError:
            raise RegistryRefusedError(
                f"{self.connection_id}: the schema registry does not return serialized schemas of Protobuf; leave out "
                "registry if the records are bare messages, or read them as raw"
            ) from None
        return self._serialized[schema_id]

    def latest(self, subject: str) -> RegisteredSchema:
        """
        Return the latest version of a subject.

        :raises RegistryUnavailableError: if the registry does not answer.
        :raises RegistryRefusedError: if it refuses the request or lacks the subject, or the schema consists of several.
        """
        found = self._ask(f"subjects/{quote(subject, safe='')}/versions/latest")
        if found is None:
            raise RegistryRefusedError(
                f"{self.connection_id}: the schema registry has no subject {subject}; name the one of the records in "
                "subject, or give schema_file"
            )
        schema_id = found.get("id")
        if not isinstance(schema_id, int):
            raise self._strange()
        self._known[schema_id] = self._schema(schema_id, found)
        return self._known[schema_id]

    def _schema(self, schema_id: int, answer: Mapping[str, Any]) -> RegisteredSchema:
        text, kind = answer.get("schema"), answer.get("schemaType") or AVRO
        if not isinstance(text, str) or not isinstance(kind, str):
            raise self._strange()
        if answer.get("references"):
            raise RegistryRefusedError(
                f"{self.connection_id}: schema {schema_id} refers to other schemas of the registry, which is not "
                "supported; register it in one piece"
            )
        return RegisteredSchema(schema_id, kind, text)

    def _ask(self, path: str) -> Mapping[str, Any] | None:
        again = Retrying(
            retry=retry_if_exception_type(RegistryUnavailableError),
            wait=wait_random_exponential(multiplier=0.2, max=5),
            stop=stop_after_attempt(_ATTEMPTS),
            reraise=True,
        )
        return again(self._ask_once, path)

    def _ask_once(self, path: str) -> Mapping[str, Any] | None:
        """Return what the registry answers; ``None`` if it lacks what is asked for."""
        headers = {"Accept": _ACCEPT, **({"Authorization": self.authorization} if self.authorization else {})}
        request = Request(f"{self.address}/{path}", headers=headers)  # noqa: S310 - its scheme was checked
        try:
            status, body = self._answer(request)
            if status == _NOT_FOUND and _is_known_to_be_missing(body):
                return None
            if status != _OK:
                raise self._refused(status)
            answer = json.loads(body)
        except URLError as error:
            raise self._unreachable(error.reason) from None
        except (OSError, HTTPException) as error:
            raise self._unreachable(error) from None
        except (ValueError, RecursionError):
            raise self._strange() from None
        if not isinstance(answer, Mapping):
            raise self._strange()
        return answer

    def _answer(self, request: Request) -> tuple[int, bytes]:
        """Return the status and the body of an answer."""
        try:
            opened = _opener().open(request, timeout=REQUEST_SECONDS)
        except HTTPError as error:
            opened = error
        with opened as response:
            return int(response.status), self._body(response)

    def _body(self, response: Any) -> bytes:
        """Read a body of bounded length, in bounded time."""
        until = time.monotonic() + ANSWER_SECONDS
        announced = response.headers.get("Content-Length")
        expected = None if announced is None else int(announced)
        body = b""
        while expected is None or len(body) < expected:
            part = response.read1(LONGEST_ANSWER)
            if not part:
                break
            body += part
            if len(body) > LONGEST_ANSWER:
                raise RegistryRefusedError(
                    f"{self.connection_id}: the schema registry's answer is longer than {LONGEST_ANSWER >> 20} MiB; "
                    "check the connection's host, port and path, or register a shorter schema"
                )
            if time.monotonic() > until:
                raise TimeoutError
        if expected is not None and len(body) < expected:
            raise IncompleteRead(body)
        return body

    def _refused(self, status: int) -> RegistryUnavailableError | RegistryRefusedError:
        """Return the error that a status means."""
        name = self.connection_id
        if status >= _SERVER_ERROR or status == _TOO_MANY:
            return RegistryUnavailableError(
                f"{name}: the schema registry answers with status {status}; nothing is lost, try again"
            )
        if status in _UNAUTHORIZED:
            return RegistryRefusedError(
                f"{name}: the schema registry refuses the login or the right to read (status {status}); check the "
                "connection's login and password"
            )
        return RegistryRefusedError(
            f"{name}: the schema registry answers with status {status}; check the connection's host, port and path"
        )

    def _unreachable(self, reason: object) -> RegistryUnavailableError | RegistryRefusedError:
        if isinstance(reason, ssl.SSLCertVerificationError):
            return RegistryRefusedError(
                f"{self.connection_id}: the schema registry's certificate is not trusted ({reason.verify_message}); "
                "check the host's name, and let SSL_CERT_FILE name the authority that signed it"
            )
        return RegistryUnavailableError(
            f"{self.connection_id}: the schema registry does not answer ({_cause(reason)}); nothing is lost, try again"
        )

    def _strange(self) -> RegistryRefusedError:
        return RegistryRefusedError(
            f"{self.connection_id}: what answers is no schema registry; check the connection's host, port and path"
        )


def schema_registry(connection_id: str) -> SchemaRegistry:
    """
    Return the registry of a connection.

    The host may hold the scheme and a path. Otherwise the connection's schema is the scheme, as in Airflow's provider.
    Login and password are sent if there is a login. Extras have no effect.

    :raises InvalidJobError: if there is no such connection, or it names no registry.
    """
    found = connection_fields(connection_id)
    if found is None:
        raise InvalidJobError(
            f"there is no connection {connection_id}; create it in Airflow, or set {variable_of(connection_id)}"
        )
    if found.kind not in _SCHEMES:
        raise InvalidJobError(f"connection {connection_id} has the type {found.kind or 'none'}, but needs {KIND}")
    return SchemaRegistry(connection_id, _address(connection_id, found), _authorization(found))


def _address(connection_id: str, found: ConnectionFields) -> str:
    host = found.host.rstrip("/")
    if "://" not in host:
        host = f"{found.schema if found.schema in _SCHEMES else found.kind}://{host}"
    try:
        parts = urlsplit(host)
        invalid = parts.scheme not in _SCHEMES or not parts.hostname or bool(parts.query or parts.fragment)
        port = parts.port or found.port
    except ValueError:
        invalid, port = True, None
    if invalid or parts.username or parts.password:
        raise InvalidJobError(
            f"connection {connection_id} has no usable host; write https://host or https://host/path, the port and the "
            "login into their own fields"
        )
    name = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{name}{f':{port}' if port else ''}{parts.path}"


def _authorization(found: ConnectionFields) -> str:
    if not found.login:
        return ""
    pair = f"{found.login}:{found.password}".encode()
    return f"Basic {base64.b64encode(pair).decode()}"


class _WithoutRedirects(HTTPRedirectHandler):
    """Follows no redirect, because the next server would get the password, too."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _opener() -> OpenerDirector:
    return build_opener(_WithoutRedirects, HTTPSHandler(context=ssl.create_default_context()))


def _is_known_to_be_missing(body: bytes) -> bool:
    """
    Return whether a registry says that it lacks a schema or a subject.

    With another code, or none, a page is missing, such as below a wrong path. That says nothing about a record.
    """
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(answer, Mapping) and str(answer.get("error_code")) in _MISSING


def _cause(reason: object) -> str:
    if isinstance(reason, TimeoutError):
        return f"no answer within {REQUEST_SECONDS} s"
    if isinstance(reason, OSError) and reason.strerror:
        return reason.strerror
    return type(reason).__name__ if isinstance(reason, Exception) else "the request failed"

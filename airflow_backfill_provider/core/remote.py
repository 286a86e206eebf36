"""
The address of a Spark Connect server, in Spark's format: ``sc://host:port/;parameter=value``.

Users may write the token in the address; it is never displayed.
"""

from __future__ import annotations

import urllib.parse
from dataclasses import dataclass, field, replace
from typing import Self

from airflow_backfill_provider.core.errors import InvalidRemoteError

SCHEME = "sc://"
DEFAULT_PORT = 15002
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

_TOKEN = "token"  # noqa: S105 - the parameter's name
_USE_SSL = "use_ssl"
_USER_ID = "user_id"
_OURS = frozenset({"session_id"})
"""Parameters that only this package sets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """
    A Spark Connect server, and the credentials for it.

    :param host: its name or address.
    :param port: its port.
    :param use_ssl: whether to connect with TLS; with a token, Spark's client uses TLS anyway, except on loopback.
    :param user_id: the user that the sessions belong to; ``None`` leaves the choice to the client.
    :param token: the token that the server requires.
    :param headers: other parameters, which Spark's client sends with every request; they may be secrets.
    """

    host: str
    port: int = DEFAULT_PORT
    use_ssl: bool = False
    user_id: str | None = None
    token: str | None = field(default=None, repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @classmethod
    def parse(cls, url: str) -> Self:
        """
        Parse an address.

        :raises InvalidRemoteError: if it is invalid; the message leaves out parameters, which may be secrets.
        """
        if not is_remote(url):
            raise InvalidRemoteError(
                f"the address of a Spark Connect server must begin with {SCHEME}; write {SCHEME}host:port"
            )
        address, *written = url.removeprefix(SCHEME).split(";")
        try:
            parts = urllib.parse.urlsplit(f"//{address}")
            host, port = parts.hostname, parts.port
        except ValueError:
            host, port = None, None
            parts = None
        if parts is None or not host or parts.path not in {"", "/"} or parts.query or parts.fragment or parts.username:
            raise InvalidRemoteError(
                f"{SCHEME}{address} is not an address of a Spark Connect server; write {SCHEME}host:port"
            )
        parameters = dict(_parameter(text, f"{SCHEME}{address}") for text in written if text)
        return cls(
            host=host,
            port=port or DEFAULT_PORT,
            use_ssl=parameters.pop(_USE_SSL, "").lower() == "true",
            user_id=parameters.pop(_USER_ID, None),
            token=parameters.pop(_TOKEN, None) or None,
            headers=tuple(parameters.items()),
        )

    def __str__(self) -> str:
        """Return the address without parameters, which may be secrets."""
        return f"{SCHEME}{self.endpoint}"

    @property
    def endpoint(self) -> str:
        """Host and port."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether the server runs on this machine."""
        return self.host in LOOPBACK

    def with_token(self, token: str | None) -> Self:
        """Return a copy with another token."""
        return replace(self, token=token)

    def with_user(self, user_id: str) -> Self:
        """Return a copy for sessions of another user."""
        return replace(self, user_id=user_id)

    def url(self, *, session_id: str | None = None) -> str:
        """
        Return the address for Spark's client, including secrets.

        :param session_id: the session to use on the server; by default a new one.
        """
        # With a token but without TLS, Spark's client recognizes loopback by this name only.
        local = self.token is not None and not self.use_ssl and self.is_loopback
        parameters = [
            *([(_USER_ID, self.user_id)] if self.user_id else []),
            *([(_USE_SSL, "true")] if self.use_ssl else []),
            *([(_TOKEN, self.token)] if self.token else []),
            *self.headers,
            *([("session_id", session_id)] if session_id else []),
        ]
        written = ";".join(f"{name}={urllib.parse.quote(value, safe='')}" for name, value in parameters)
        return f"{SCHEME}{f'localhost:{self.port}' if local else self.endpoint}/;{written}".removesuffix("/;")


def is_remote(master: str) -> bool:
    """Return whether a Spark master is the address of a Spark Connect server."""
    return master.startswith(SCHEME)


def _parameter(text: str, address: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InvalidRemoteError(f"{address}: parameters after the address must be written as ;name=value")
    if name in _OURS:
        raise InvalidRemoteError(f"{address}: {name} is set by this package; leave it out")
    return name, urllib.parse.unquote(value)

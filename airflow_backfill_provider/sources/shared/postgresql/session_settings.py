"""
What each session with PostgreSQL sets for itself, whatever the server, the database and the role say.

Values are compared and parsed as text, so every session writes them in one form. And a limit that is meant for people,
such as a ``statement_timeout``, must not end a long reading: it would end each repetition, too.
"""

from __future__ import annotations

from collections.abc import Collection

_OF_VALUES = {
    "client_encoding": "UTF8",
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "iso_8601",
    "TimeZone": "UTC",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "xmloption": "content",
    "search_path": "pg_catalog",
    # The names of tables, in messages and in statements to run.
    "quote_all_identifiers": "off",
}
"""What the text of a value or a name depends on."""

_OF_STATEMENTS = {
    "standard_conforming_strings": "on",
    "array_nulls": "on",
    "transform_null_equals": "off",
    # An inexact search of some indexes.
    "gin_fuzzy_search_limit": "0",
    # Waiting for other transactions means to look at them again.
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
    "default_transaction_deferrable": "off",
}
"""What a statement means and may do."""

_LIMITS = {
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
}
"""After which a server ends a statement or a session; 0 for never."""

_SETTINGS = {**_OF_VALUES, **_OF_STATEMENTS, **_LIMITS}

# A server that does not know a setting refuses to set it.
_OF_NEWER_SERVERS = (
    "SELECT pg_catalog.set_config(s.name, '0', false) FROM pg_catalog.pg_settings s "
    "WHERE s.name = 'transaction_timeout'"
)
"""Sets the limits that not every server has."""


def startup_options(*, without: Collection[str] = ()) -> str:
    """
    Return the settings as options of a new connection: they are in force before its first statement.

    :param without: settings that the driver sets itself.
    """
    chosen = ((name, value) for name, value in _SETTINGS.items() if name not in without)
    return " ".join(f"-c {name}={value.replace(' ', chr(92) + ' ')}" for name, value in chosen)


def statements(*, without: Collection[str] = ()) -> str:
    """
    Return statements that set the settings, also those that a driver's own defaults or its environment replaced.

    :param without: settings that the driver sets itself, to the same values.
    """
    chosen = (f"SET {name} TO '{value}'" for name, value in _SETTINGS.items() if name not in without)
    # Not quoted as one text: it is a list.
    return "; ".join([*chosen, _OF_NEWER_SERVERS])

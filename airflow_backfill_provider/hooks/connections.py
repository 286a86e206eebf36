"""Connections to the upstreams' systems, from Airflow: for this process, and for the applications that it starts."""

from __future__ import annotations

from collections.abc import Iterable

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.connections import ConnectionFields, variable_of


def from_airflow(connection_id: str) -> ConnectionFields | None:
    """Look a connection up in Airflow; ``None`` if Airflow does not have it."""
    try:
        found = BaseHook.get_connection(connection_id)
    except AirflowNotFoundException:
        return None
    return ConnectionFields(
        kind=found.conn_type or "",
        host=found.host or "",
        port=found.port,
        login=found.login or "",
        password=found.password or "",
        schema=found.schema or "",
        extra=found.extra_dejson,
    )


def connection_variables(connection_ids: Iterable[str]) -> dict[str, str]:
    """
    Return the environment variables that pass connections to an application; they hold secrets.

    :raises InvalidJobError: if Airflow does not have a connection.
    """
    variables = {}
    for connection_id in connection_ids:
        try:
            connection = BaseHook.get_connection(connection_id)
        except AirflowNotFoundException:
            raise InvalidJobError(
                f"upstream: there is no connection {connection_id}; create it in Airflow under Admin, Connections"
            ) from None
        variables[variable_of(connection_id)] = connection.as_json()
    return variables

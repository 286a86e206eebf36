"""Airflow's auth manager, watched and narrowed, for tests of who may do what."""

from __future__ import annotations

from typing import Any

import pytest

Question = tuple[Any, Any, str | None]
"""What the auth manager was asked about a single DAG: method, entity and DAG."""


def record_questions(monkeypatch: pytest.MonkeyPatch) -> list[Question]:
    """Return a list to which each question about a single DAG is added."""
    from airflow.api_fastapi.app import get_auth_manager

    manager = type(get_auth_manager())
    allowed = manager.is_authorized_dag
    asked: list[Question] = []

    def is_authorized_dag(self: Any, *, method: Any, access_entity: Any = None, details: Any = None, user: Any) -> bool:
        asked.append((method, access_entity, details and details.id))
        return allowed(self, method=method, access_entity=access_entity, details=details, user=user)

    monkeypatch.setattr(manager, "is_authorized_dag", is_authorized_dag)
    return asked


def hide_dag(monkeypatch: pytest.MonkeyPatch, dag_id: str, *, user: str) -> None:
    """Refuse one DAG to a user who may read all others, as with DAGs of other teams."""
    from airflow.api_fastapi.app import get_auth_manager

    manager, name = type(get_auth_manager()), user
    allowed, readable = manager.is_authorized_dag, manager.get_authorized_dag_ids

    def is_authorized_dag(self: Any, *, user: Any, details: Any = None, **more: Any) -> bool:
        if user.get_name() == name and details is not None and details.id == dag_id:
            return False
        return allowed(self, user=user, details=details, **more)

    def get_authorized_dag_ids(self: Any, *, user: Any, **more: Any) -> set[str]:
        return readable(self, user=user, **more) - ({dag_id} if user.get_name() == name else set())

    monkeypatch.setattr(manager, "is_authorized_dag", is_authorized_dag)
    monkeypatch.setattr(manager, "get_authorized_dag_ids", get_authorized_dag_ids)

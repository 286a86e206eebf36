"""The description of the package for Airflow is valid, complete, and true."""

from __future__ import annotations

import inspect
import json
import pkgutil
import subprocess
import sys
from importlib import import_module
from importlib.metadata import entry_points
from importlib.resources import files

import jsonschema
import pytest
from airflow.sdk import BaseHook, BaseNotifier, BaseOperator, BaseSensorOperator, Connection
from airflow.triggers.base import BaseTrigger

import airflow_backfill_provider
from airflow_backfill_provider.get_provider_info import get_provider_info
from airflow_backfill_provider.hooks.backfill import EXTRAS, BackfillHook

BASES = {f"airflow_backfill_provider.operators.{name}" for name in ("base", "epoch_reporting")}
INFO = get_provider_info()


@pytest.mark.parametrize("schema", ["provider_info.schema.json", "provider.yaml.schema.json"])
def test_the_description_is_valid_against_airflows_schemas(schema):
    rules = json.loads(files("airflow").joinpath(schema).read_text(encoding="utf-8"))
    # The second one is stricter about the connection form; the rest of it is about Airflow's own releases.
    parts = {"connection-types": INFO["connection-types"]} if "yaml" in schema else INFO
    required = [name for name in rules.get("required", []) if name in parts]

    jsonschema.validate(parts, {**rules, "required": required})


def test_airflow_finds_the_description_through_the_entry_point():
    (entry,) = [entry for entry in entry_points(group="apache_airflow_provider") if "backfill" in entry.value]

    assert entry.load()() == INFO


def test_the_description_imports_nothing_of_airflow():
    program = (
        "import sys; from airflow_backfill_provider.get_provider_info import get_provider_info; get_provider_info(); "
        "print('airflow' in sys.modules)"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert answer.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("kind", "base"),
    [("hooks", BaseHook), ("operators", BaseOperator), ("sensors", BaseSensorOperator), ("triggers", BaseTrigger)],
)
def test_every_module_that_defines_one_is_listed(kind, base):
    folder = import_module(f"airflow_backfill_provider.{kind}")
    defining = {
        f"{folder.__name__}.{module.name}"
        for module in pkgutil.iter_modules(folder.__path__)
        if any(
            issubclass(member, base) and member.__module__.endswith(module.name) and not member.__name__.startswith("_")
            for _, member in inspect.getmembers(import_module(f"{folder.__name__}.{module.name}"), inspect.isclass)
            if not inspect.isabstract(member)
        )
    }
    ((listed),) = [entry["python-modules"] for entry in INFO[kind]]

    assert defining - BASES == set(listed)


def test_every_notifier_is_listed():
    folder = import_module("airflow_backfill_provider.notifications")
    defining = {
        f"{member.__module__}.{name}"
        for module in pkgutil.iter_modules(folder.__path__)
        for name, member in inspect.getmembers(import_module(f"{folder.__name__}.{module.name}"), inspect.isclass)
        if issubclass(member, BaseNotifier) and member.__module__.endswith(module.name)
    }

    assert defining == set(INFO["notifications"])


def test_the_connection_form_shows_exactly_what_the_hook_takes():
    (connection,) = INFO["connection-types"]

    assert connection["connection-type"] == BackfillHook.conn_type
    assert connection["hook-class-name"] == f"{BackfillHook.__module__}.{BackfillHook.__qualname__}"
    assert set(connection["conn-fields"]) == set(EXTRAS)


def test_airflow_draws_the_connection_form_and_hides_the_storage_options():
    from airflow.providers_manager import ProvidersManager

    manager = ProvidersManager()
    manager.initialize_providers_hooks()
    widgets = manager.connection_form_widgets

    assert widgets["extra__airflow_backfill__storage_options"].is_sensitive
    assert widgets["extra__airflow_backfill__secret_storage_options"].is_sensitive
    assert not widgets["extra__airflow_backfill__state_root"].is_sensitive


def test_airflow_makes_the_hook_of_a_connection():
    hook = Connection(conn_id="lake", conn_type="airflow_backfill").get_hook()

    assert isinstance(hook, BackfillHook)
    assert hook.backfill_conn_id == "lake"


def test_the_version_is_the_packages():
    assert INFO["versions"] == [airflow_backfill_provider.__version__]

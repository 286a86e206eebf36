"""
The provider's description for Airflow, with the form of its connection.

Airflow loads this module while it reads its own configuration, so it imports nothing of Airflow.
"""

from __future__ import annotations

from typing import Any

from airflow_backfill_provider import __version__
from airflow_backfill_provider.core.site import SITE

_PACKAGE = "airflow_backfill_provider"
_INTEGRATION = "Orchestrated backfills"


def get_provider_info() -> dict[str, Any]:
    """Return the provider's description; entry point ``apache_airflow_provider``."""
    return {
        "package-name": "airflow-backfill-provider",
        "name": _INTEGRATION,
        "description": "Backfills materialized views over changing Delta tables, epoch by epoch, on Apache Spark.",
        "versions": [__version__],
        "integrations": [
            {
                "integration-name": _INTEGRATION,
                "external-doc-url": f"{SITE}/",
                "tags": ["software"],
            }
        ],
        "hooks": [_modules("hooks.backfill", "hooks.connect_application", "hooks.spark_application")],
        "operators": [
            _modules(
                "operators.approval",
                "operators.compaction",
                "operators.cut_over",
                "operators.epoch",
                "operators.finish",
                "operators.job",
                "operators.mutation",
                "operators.rebuild",
                "operators.shared_epoch",
                "operators.verification",
                "operators.watchdog",
            )
        ],
        "sensors": [_modules("sensors.backfill")],
        "triggers": [_modules("triggers.application", "triggers.backfill", "triggers.upstream")],
        "extra-links": [
            f"{_PACKAGE}.operators.links.{link}"
            for link in ("BackfillLink", "MaterializedViewLink", "SparkApplicationLink")
        ],
        "notifications": [
            f"{_PACKAGE}.notifications.backfill.BackfillNotifier",
            f"{_PACKAGE}.notifications.webhook.WebhookNotifier",
        ],
        "connection-types": [_connection_type()],
    }


def _modules(*names: str) -> dict[str, Any]:
    return {"integration-name": _INTEGRATION, "python-modules": [f"{_PACKAGE}.{name}" for name in names]}


def _connection_type() -> dict[str, Any]:
    return {
        "connection-type": "airflow_backfill",
        "hook-class-name": f"{_PACKAGE}.hooks.backfill.BackfillHook",
        "hook-name": "Backfill",
        "ui-field-behaviour": {
            "hidden-fields": ["host", "port", "login", "password", "schema"],
            "relabeling": {},
            "placeholders": {},
        },
        "conn-fields": {
            "state_root": {
                "label": "State root",
                "description": (
                    "Folder for the control tables of jobs that do not set state: an absolute path, or a URI such as "
                    "s3a://bucket/backfill. Without it they lie beside the materialized view."
                ),
                "schema": {"type": ["string", "null"]},
            },
            "storage_options": {
                "label": "Storage options",
                "description": (
                    "JSON object with deltalake's options for the object store, which Spark gets, too: names that "
                    'begin with AWS_, AZURE_ or GOOGLE_, such as {"AWS_REGION": "eu-central-1"}; those of one bucket '
                    "begin with bucket.<name>.AWS_. Airflow shows them to everybody who may see connections."
                ),
                # A user may still write a credential here.
                "schema": {"type": ["string", "null"], "format": "password"},
            },
            # Airflow hides a saved extra only if its name contains "secret".
            "secret_storage_options": {
                "label": "Secret storage options",
                "description": (
                    "JSON object with the credentials among these options, such as "
                    '{"AWS_ACCESS_KEY_ID": "…", "AWS_SECRET_ACCESS_KEY": "…"}. Airflow never shows them again.'
                ),
                "schema": {"type": ["string", "null"], "format": "password"},
            },
        },
    }

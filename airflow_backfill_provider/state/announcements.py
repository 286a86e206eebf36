"""
Records of what each DAG has announced of a job, beside its control tables: one small file per DAG.

The epoch protocol does not depend on these records. If one is missing or unreadable, its DAG announces the epochs that
are committed from then on.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping

from pydantic import ValidationError

from airflow_backfill_provider.core.epoch.announced import Announced
from airflow_backfill_provider.lake.files.record_files import RecordFiles

FOLDER = "announcements"


class Announcements:
    """
    Reads and writes what DAGs have announced.

    :param state: folder of the control tables, ``BackfillJob.state``.
    :param storage_options: options of the object store, as deltalake takes them.
    """

    def __init__(self, state: str, storage_options: Mapping[str, str] | None = None) -> None:
        self._files = RecordFiles(f"{state}/{FOLDER}", storage_options)

    def of(self, dag_id: str) -> Announced | None:
        """
        Return what a DAG has announced, if there is a readable record.

        :raises StorageUnavailableError: if the storage does not answer.
        """
        text = self._files.get(_file(dag_id))
        try:
            return None if text is None else Announced.model_validate_json(text)
        except ValidationError:
            return None

    def write(self, dag_id: str, announced: Announced) -> None:
        """
        Replace a DAG's record.

        :raises StorageUnavailableError: if the storage does not answer.
        """
        self._files.put(_file(dag_id), announced.model_dump_json())


def _file(dag_id: str) -> str:
    return f"{urllib.parse.quote(dag_id, safe='')}.json"

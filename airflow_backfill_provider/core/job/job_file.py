"""Reads YAML files in which each field is written once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from airflow_backfill_provider.core.errors import InvalidJobError


def read_yaml(path: str | Path) -> Any:
    """
    Return the content of a YAML file.

    :raises InvalidJobError: if it cannot be read, is not YAML, or repeats a field.
    """
    try:
        return yaml.load(Path(path).read_text(encoding="utf-8"), Loader=_OneValuePerField)  # noqa: S506 - safe
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InvalidJobError(f"{path}: cannot be read as YAML: {error}") from error


class _OneValuePerField(yaml.SafeLoader):
    """The safe loader, which also refuses repeated fields instead of taking the last value."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002
        """Build a mapping, unless a field is repeated."""
        names = [self.construct_object(key, deep=True) for key, _ in node.value]
        repeated = sorted({str(name) for name in names if names.count(name) > 1})
        if repeated:
            raise yaml.constructor.ConstructorError(
                None, None, f"{', '.join(repeated)} is written more than once", node.start_mark
            )
        return super().construct_mapping(node, deep)

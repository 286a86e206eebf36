"""Models that are shown as YAML, as in Airflow's rendered templates."""

from __future__ import annotations

import yaml
from pydantic import BaseModel


class ShownAsYaml(BaseModel):
    """A model whose text is YAML: the fields that were given, as they would be written in a file."""

    def __str__(self) -> str:
        """Return the YAML."""
        fields = self.model_dump(mode="json", exclude_unset=True)
        return str(yaml.safe_dump(fields, sort_keys=False, allow_unicode=True, width=120))

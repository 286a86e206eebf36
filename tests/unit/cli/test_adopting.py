"""A table that differs is refused with the first keys that differ, which the error itself does not have."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.cli.adopting import saying_keys
from airflow_backfill_provider.core.errors import AdoptedTableDiffersError, InvalidJobError


def test_the_keys_are_printed_and_the_error_goes_on(capsys):
    with pytest.raises(AdoptedTableDiffersError, match="^it differs$"), saying_keys():
        raise AdoptedTableDiffersError("it differs", ('missing: ["7"] of vnode 0',))
    assert capsys.readouterr().out == '  missing: ["7"] of vnode 0\n'


def test_other_errors_go_on(capsys):
    with pytest.raises(InvalidJobError), saying_keys():
        raise InvalidJobError("a field")
    assert not capsys.readouterr().out

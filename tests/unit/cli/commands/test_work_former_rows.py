"""``forget``, and ``rebuild`` and ``revert`` of a view that keeps former rows."""

from __future__ import annotations

import pytest

from tests.unit.cli.conftest import fails

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


def test_forget_is_told_which_keys(created):
    assert created("forget").exit_code == 2


def test_a_view_without_former_rows_has_nothing_to_forget(created):
    fails(created("forget", "--key", "1"), "forget: the view of job small_orders keeps no former rows")


def test_former_rows_are_discarded_only_if_somebody_says_so(job):
    job.write(keep="history")
    assert job("create").exit_code == 0
    assert job("run", "--until-finished").exit_code == 0
    fails(job("rebuild"), "keeps former rows (keep: history)", "say --discard-history")
    assert job("rebuild", "--discard-history").exit_code == 0

"""A finished verification, summed up for people."""

from __future__ import annotations

import datetime as dt

import pytest

from airflow_backfill_provider.core.status.differences import DifferenceKind, VnodeDifference
from airflow_backfill_provider.core.status.verification import Verification
from airflow_backfill_provider.core.status.verified_state import SAMPLE, VerifiedState
from tests.builders import NOW, compared_of, pinned_verification_of


def verified(*steps):
    return VerifiedState.of(Verification(pinned_verification_of(), steps))


def test_it_says_what_was_compared_by_whom_and_when():
    found = verified(compared_of(0, 1), compared_of(2, 3, seconds=90))
    assert (found.number, found.epoch, found.upstream_version.number, found.view_version) == (1, 41, 12, 90)
    assert (found.equal, found.expected_rows, found.found_rows) == (True, 20, 20)
    assert (found.requested_by, found.verified_at) == ("vera", NOW + dt.timedelta(seconds=90))
    assert (found.vnodes, found.differing_keys, found.sample) == ("", 0, ())


def test_differing_keys_are_counted_by_kind_over_all_vnodes():
    some = VnodeDifference(vnode=0, missing=1, unexpected=2)
    others = VnodeDifference(vnode=3, missing=4, repeated=8, different=16)
    found = verified(compared_of(0, 1, differences=(some,)), compared_of(2, 3, differences=(others,)))
    assert found.keys == {
        DifferenceKind.MISSING: 5,
        DifferenceKind.UNEXPECTED: 2,
        DifferenceKind.REPEATED: 8,
        DifferenceKind.DIFFERENT: 16,
    }
    assert (found.differing_keys, found.vnodes, found.equal) == (31, "0, 3", False)


@pytest.mark.parametrize(("keys", "expected"), [(3, 3), (SAMPLE, SAMPLE), (SAMPLE + 5, SAMPLE)])
def test_the_first_keys_are_a_sample(keys, expected):
    found = verified(compared_of(0, 1, *((0, str(number)) for number in range(keys))), compared_of(2, 3))
    assert [differing.key for differing in found.sample] == [(str(number),) for number in range(expected)]
    assert found.differing_keys == keys


def test_it_survives_json():
    found = verified(compared_of(0, 1, (1, "ä")), compared_of(2, 3))
    assert VerifiedState.model_validate_json(found.model_dump_json()) == found

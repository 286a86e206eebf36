"""Repairs that are asked for together."""

from __future__ import annotations

from airflow_backfill_provider.core.epoch.repair import Repair


def test_two_repairs_together_name_each_vnode_and_key_once():
    one = Repair(vnodes=(3, 1), keys=(("7",),))
    other = Repair(vnodes=(1, 2), keys=(("7",), ("8",)), units=(("a",),))
    assert one + other == Repair(vnodes=(1, 2, 3), keys=(("7",), ("8",)), units=(("a",),))


def test_a_repair_of_nothing_is_none():
    assert not Repair()
    assert all((Repair(vnodes=(0,)), Repair(keys=((None,),)), Repair(units=((None,),))))

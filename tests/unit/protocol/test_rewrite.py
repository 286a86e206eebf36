"""What an epoch writes again because of a repair or of another query."""

from __future__ import annotations

from airflow_backfill_provider.core.epoch.failures import GivenUp
from airflow_backfill_provider.core.epoch.repair import PARTIAL_REPAIR, Repair
from airflow_backfill_provider.core.epoch.settings import JobSettings, SettingsChange, ViewColumn
from airflow_backfill_provider.core.job.definition_change import ColumnsChange
from airflow_backfill_provider.protocol.rewrite import FormerState, Rewrite, rewrite_of
from tests.builders import NOW, barrier_of, job_of, settings_of

FORMER = "SELECT id FROM upstream WHERE amount > 1"
LATTER = "SELECT id FROM upstream WHERE status = 'paid'"
GIVEN_UP = GivenUp(error="E", message="m", by="x", at=NOW, to_offset=1, settings_sequence=2)


def changed_to(*queries: str, **fields: object) -> list[JobSettings]:
    records = [settings_of(job_of(query=FORMER), types={"id": "long", "amount": "long"})]
    for query in queries:
        job = job_of(query=query).model_dump(mode="json")
        records.append(
            records[-1].changed(SettingsChange.CHANGE, requested_by="a", requested_at=NOW, job=job, **fields)
        )
    return records


def rewrite(records: list[JobSettings], **fields: object) -> Rewrite:
    return rewrite_of(records, barrier_of(**fields), records[1:])


def test_another_filter_is_computed_of_the_columns_of_both_queries():
    found = rewrite(changed_to(LATTER))
    assert not found.repair
    assert found.filter_change is not None
    assert (found.filter_change.before, found.filter_change.after) == ("amount > 1", "status = 'paid'")
    assert found.filter_change.types == {"id": "long", "amount": "long"}
    assert found.reads == changed_to()[0].upstream
    assert bool(found)


def test_the_last_of_several_changes_counts_against_what_the_view_has():
    assert rewrite(changed_to("SELECT id + 1 AS id FROM upstream", LATTER)).filter_change is not None
    assert not rewrite(changed_to(LATTER, FORMER))
    assert not rewrite(changed_to(f"{FORMER} -- with words"))


def test_the_same_text_may_give_other_columns():
    """Of a star that follows its upstream, which has the column since the last epoch."""
    columns = (ViewColumn(name="id", type="long"), ViewColumn(name="note", type="string"))
    records = changed_to(FORMER, view_columns=columns)
    found = rewrite_of(records, barrier_of(), records[1:], FormerState(view={"id": "long"}))
    assert found.columns_change == ColumnsChange(added=("note",))
    assert not rewrite_of(records, barrier_of(), records[1:], FormerState(view={"id": "long", "note": "string"}))


def test_what_is_no_filter_is_all_rows():
    found = rewrite(changed_to("SELECT id + 1 AS id FROM upstream"))
    assert found.repair == Repair(vnodes=(0, 1, 2, 3))
    assert found.warnings(frozenset(range(4))) == ()


def test_after_an_epoch_that_was_given_up_and_beside_a_repair_all_rows_are_compared():
    everything = Repair(vnodes=(0, 1, 2, 3))
    assert rewrite(changed_to(LATTER), given_up=GIVEN_UP).repair == everything
    found = rewrite(changed_to(LATTER, repair=Repair(keys=(("7",),))))
    assert (found.repair, found.filter_change) == (everything + Repair(keys=(("7",),)), None)


def test_a_repair_alone_is_what_it_asks_for():
    records = changed_to()
    asked = Repair(vnodes=(2,))
    records.append(records[0].changed(SettingsChange.REPAIR, requested_by="a", requested_at=NOW, repair=asked))
    found = rewrite(records)
    assert (found.repair, found.filter_change, found.reads) == (asked, None, None)
    assert found.warnings(frozenset(range(4))) == (PARTIAL_REPAIR,)
    assert rewrite_of(records, None, records) == Rewrite(repair=asked)

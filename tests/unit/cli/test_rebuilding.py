"""``rebuild --downstream``: a job, and after it the jobs that read its view."""

from __future__ import annotations

import shutil

import pytest

from airflow_backfill_provider.cli import spark
from tests.builders import Template
from tests.unit.cli.conftest import fails, job_in
from tests.writing_engine import WritingEngine

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


def job_over(folder, name, view, **changes):
    """Write the file of a job over another one's view, beside that one's file."""
    job = job_in(
        folder,
        name=name,
        upstream={"path": str(folder / "lake" / view), "key": ["rows_are_only_counted"]},
        materialized_view=str(folder / "lake" / name),
        query="SELECT rows_are_only_counted FROM upstream",
        **changes,
    )
    job.file = job.file.rename(folder / f"{name}.yaml")
    return job


def chain_in(folder):
    """Write the files of three jobs in a chain, and of a fourth beside them that nobody creates."""
    third, second = job_over(folder, "a_third", "second"), job_over(folder, "second", "small_orders")
    job_over(folder, "never_created", "a_third")
    (folder / "other.yaml").write_text("{{ a template }}", encoding="utf-8")
    (folder / "list.yml").write_text("- 1", encoding="utf-8")
    return job_in(folder), second, third


@pytest.fixture(scope="module")
def template(tmp_path_factory, four_files):
    """The chain, created and finished."""

    def fill(folder):
        shutil.copytree(four_files, folder / "lake" / "orders")
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(spark.LazySpark, "__call__", lambda _: WritingEngine())
            for job in chain_in(folder):
                assert job("create").exit_code == 0
                assert job("run", "--until-finished").exit_code == 0

    return Template(tmp_path_factory.mktemp("chain"), fill)


@pytest.fixture
def folder(template):
    return template.restore()


@pytest.fixture
def chain(folder, monkeypatch):
    """Three jobs in a chain, all of them finished, and a fourth beside them that is not created."""
    monkeypatch.setattr(spark.LazySpark, "__call__", lambda _: WritingEngine())
    return chain_in(folder)


def incarnations(chain):
    return [job.backfill.settings().incarnation for job in chain]


def test_a_rebuild_alone_is_told_downstream_by_name(chain):
    first, second, _ = chain
    assert first("rebuild").exit_code == 0
    fails(second("run"), "waits for small_orders, 0 %")
    assert first("run", "--until-finished").exit_code == 0
    fails(second("run"), "because job small_orders rebuilt its view, and this job is downstream of it", "rebuild")
    assert "is downstream of it" in second("status").stdout


def test_all_jobs_of_a_chain_are_rebuilt_and_finished_in_order(chain):
    before = incarnations(chain)
    done = chain[0]("rebuild", "--downstream")
    assert done.exit_code == 0, done.output
    assert [line for line in done.stdout.splitlines() if ": rebuilt" in line] == [
        "small_orders: rebuilt, job 1 of 3",
        "second: rebuilt, job 2 of 3",
        "a_third: rebuilt, job 3 of 3",
    ]
    assert all(earlier != later for earlier, later in zip(before, incarnations(chain), strict=True))
    for job in chain:
        assert job.backfill.status().finished
        assert job("run").exit_code == 0


@pytest.mark.exhaustive
def test_views_stay_in_service_while_those_of_a_chain_are_rebuilt(chain):
    done = chain[0]("rebuild", "--downstream", "--keep-serving")
    assert done.exit_code == 0, done.output
    for job in chain:
        assert f"has taken the place of the view: {job.definition['materialized_view']}" in done.stdout
        assert job.backfill.status().finished
        assert job("run").exit_code == 0


@pytest.mark.exhaustive
def test_a_view_downstream_that_is_not_finished_cannot_stay_in_service_and_does_not_stop_the_others(chain):
    first, second, _ = chain
    assert second("rebuild").exit_code == 0
    done = first("rebuild", "--downstream", "--keep-serving")
    assert done.exit_code == 0, done.output
    assert "a_third: rebuilt, job 3 of 3" in done.stdout
    assert all(job.backfill.status().finished for job in chain)


def test_a_view_downstream_that_cannot_stay_in_service_is_refused_before_anything_is_rebuilt(chain, folder):
    before = incarnations(chain)
    job = job_over(folder, "kept", "a_third")
    assert job("create").exit_code == 0
    job.write(upstream={"path": str(folder / "lake" / "a_third"), "append_only": True})
    chain[0].write()
    fails(chain[0]("rebuild", "--downstream", "--keep-serving"), "job kept keeps", "rebuild without --keep-serving")
    assert incarnations(chain) == before


def test_a_cancelled_job_downstream_stays_cancelled(chain):
    first, second, third = chain
    assert second("cancel").exit_code == 0
    before = incarnations([second, third])
    done = first("rebuild", "--downstream")
    assert done.exit_code == 0, done.output
    assert "job 1 of 1" in done.stdout
    assert incarnations([second, third]) == before


def test_only_what_is_downstream_of_a_job_is_rebuilt(chain):
    before = incarnations(chain)
    assert chain[1]("rebuild", "--downstream").exit_code == 0
    after = incarnations(chain)
    assert [earlier == later for earlier, later in zip(before, after, strict=True)] == [True, False, False]


@pytest.mark.exhaustive
def test_a_job_that_does_not_finish_leaves_those_after_it_as_they_were(chain):
    first, second, third = chain
    first.write(rate_limit=0)
    before = incarnations([second, third])
    refused = first("rebuild", "--downstream")
    assert refused.exit_code == 1
    assert "the jobs downstream are not rebuilt: second, a_third" in refused.stderr
    assert incarnations([second, third]) == before


def test_an_invalid_job_beside_it_is_refused_before_anything_is_rebuilt(chain, folder):
    """I6: it may be downstream."""
    before = incarnations(chain)
    job_over(folder, "broken", "a_third", vnode_count=0)
    chain[0].write()
    fails(chain[0]("rebuild", "--downstream"), "broken.yaml", "vnode_count", "correct or move the file")
    assert incarnations(chain) == before


def test_a_changed_query_names_the_jobs_that_get_the_difference(chain):
    """They go on without a rebuild, unless they use a column that goes."""
    first, *_ = chain
    first.write(query="SELECT order_id, amount FROM upstream WHERE amount > 3")
    assert first("change", "--dry-run").output.splitlines()[2:] == [
        "small_orders: job second downstream gets the difference as changes",
        "small_orders: job a_third downstream gets the difference as changes",
    ]
    first.write(query="SELECT order_id FROM upstream")
    assert "small_orders: job second downstream gets all rows again" in first("change", "--dry-run").output
    first.write(vnode_count=8)
    assert "small_orders: job second downstream has to be rebuilt, too" in first("change", "--dry-run").output

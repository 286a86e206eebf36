"""The programs of the demos: they have the same options, and tell the same story over different upstreams."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from demo.folder import Size, size_from_environment
from demo.job import DemoJob, write_totals_job
from demo.query_change import QueryChange
from demo.run import DemoRun
from demo.runner import run_demo
from demo.scenario import Scenario
from demo.store import STORES
from demo.upstream import Upstream

MakeUpstream = Callable[[DemoRun, Size], Upstream]


def main(name: str, description: str, upstream: MakeUpstream, *, folder: str, star: MakeUpstream | None = None) -> int:
    """
    Read the arguments, run a demo, and return the exit code.

    :param name: the program's name in messages.
    :param folder: the name of its folder in the checkout.
    :param star: what ``--star`` reads instead; ``None`` if the program has no such option.
    """
    parser = argparse.ArgumentParser(prog=name, description=description)
    parser.add_argument(
        "--store", choices=STORES, default="local", help="where all tables lie: in the demo's folder, or in a bucket"
    )
    parser.add_argument(
        "--groups", action="store_true", help="add a second job: live totals over the view of the first"
    )
    parser.set_defaults(upstream=upstream)
    if star is not None:
        parser.add_argument(
            "--star",
            dest="upstream",
            action="store_const",
            const=star,
            help="join the orders with customers and countries, which also change, and keep the revenue by country",
        )
        parser.add_argument(
            "--change",
            action="store_true",
            help="add a column to the view while the writer goes on: see the difference, approve it, and it goes live",
        )
    parser.add_argument("--stay", action="store_true", help="keep everything running at the end, until Ctrl-C")
    arguments = parser.parse_args()
    changes_query = star is not None and arguments.change
    if changes_query and (arguments.groups or arguments.upstream is star):
        parser.error("--change is for one job over one table; leave out --groups and --star")

    def play(run: DemoRun) -> None:
        store = STORES[arguments.store](run)
        orders = arguments.upstream(store.run, size_from_environment())
        orders.write_job()
        folder = store.run.folder
        jobs = [DemoJob(folder.job, folder.view, orders.query)]
        if arguments.groups or orders.has_totals:
            jobs.append(write_totals_job(folder, orders.totals_name, orders.query, orders.totals, orders.key))
        environment = {**orders.environment, **store.environment}
        change = QueryChange(store.run, jobs[0], environment) if changes_query else None
        Scenario(orders, store, jobs, change).run(stay=arguments.stay)

    return run_demo(name, play, folder=folder)

"""
The backfill as plain Python: the classical streaming algorithm as the oracle, and this project's order of
operations.

Nothing here imports the package under test. :mod:`tests.model.upstream` is the upstream,
:mod:`tests.model.classical` and :mod:`tests.model.orchestrated` are the two algorithms,
:mod:`tests.model.truth` says what both must give, :mod:`tests.model.runs` drives them and
:mod:`tests.model.explore` searches all interleavings. :mod:`tests.model.arrangement` is the algorithm with a
position for each vnode and task runs that share an epoch; its other modules begin with ``arranged``. Modules
that begin with ``cdc`` are the two algorithms over a database that shows its present rows only, and those
that begin with ``source`` are the two over splits to which rows are appended.

Modules that begin with ``groups`` are views that group: there the unit of the view is a group of rows and not a row.
:mod:`tests.model.groups_job` has the rules, :mod:`tests.model.groups_attempt` is one attempt of an epoch,
:mod:`tests.model.groups_runs` plays random histories by seed, :mod:`tests.model.groups_explore` plays all schedules
of two attempts, and :mod:`tests.model.groups_mutants` has all kinds of views and all mistakes that must be found.

Modules that begin with ``joins`` are views over several upstreams. They are views of groups, too, whose rows are those
of a join; without groups the unit is the lead's row. :mod:`tests.model.joins_tables` has the upstreams,
:mod:`tests.model.joins_queries` what a query makes of them, and :mod:`tests.model.joins_catalog` the queries;
:mod:`tests.model.joins_affected` finds the lead rows that a window affects, :mod:`tests.model.joins_job` is the view,
and :mod:`tests.model.joins_mutants` has all kinds and mistakes. :mod:`tests.model.joins_windows` pins windows at one
instant, and :mod:`tests.model.joins_frontiers` has views over views that share roots.
"""

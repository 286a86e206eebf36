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
"""

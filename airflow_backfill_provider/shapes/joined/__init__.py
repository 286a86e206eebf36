"""
``join`` and ``union``: the rows of the view are computed from rows of several upstreams.

A lead is joined with dimensions, or branches are united. A change of any upstream affects some rows of the lead, and
what the query gives for these is written anew. The package knows these queries, what is refused of them, and how the
affected leads are found; no shape is registered for them yet, because no writer computes them.
"""

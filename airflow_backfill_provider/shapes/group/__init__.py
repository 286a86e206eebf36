"""``group``: the rows of the view are computed from groups of rows of the upstream, each group by itself."""

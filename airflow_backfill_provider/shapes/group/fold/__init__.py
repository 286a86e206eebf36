"""
``fold``: groups whose aggregates can be undone are maintained from the changes alone.

Hidden columns of the view hold the state of each group: its number of rows, and for each argument its number of
non-null values, their sum, its least and greatest value. An epoch computes the new state from the state that the
previous epoch left and from the images of the changed rows: those that come count plus, those that go count minus. It
writes absolute values, so an attempt that is repeated writes the same.

Some groups must be read again: an extreme went, or a sum left the range in which it is exact. For these the query runs
over all of their rows, so that also errors and NULL are Spark's own.

:func:`~airflow_backfill_provider.shapes.group.fold.folding.fold_of` is the entrance. All of this is text of SQL that
pure code makes; Spark only runs it.

======================  ====================================================================================
``step``                what is folded: a grouping step and its aggregates
``reasons``             why a step cannot be folded, and what to write instead
``numbers``             types whose values can be added and taken away exactly
``columns``             one hidden column: its first value, its change, its new value
``state``               the hidden columns of a step; aggregates of one argument share them
``functions``           each function: the hidden columns that it needs, and its value from them
``folding``             a step becomes a fold
``statements``          the SQL of an epoch
======================  ====================================================================================
"""

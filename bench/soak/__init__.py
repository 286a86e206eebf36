"""
A long run: a thousand epochs of one job, to see whether the last ones cost the same as the first ones.

The run simulates days in seconds, so tables delete old data early: control tables after each epoch, as if their
retention had passed, and the view's log after a fixed number of versions.
"""

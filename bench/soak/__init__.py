"""
A long haul: a thousand epochs of one job, to see whether the last ones cost what the first ones did.

Days pass in seconds. What a table may forget is therefore forgotten at once, as if its retention lay between any two
epochs (control tables), or after as many versions as a stretch of time would have had (the view's log).
"""

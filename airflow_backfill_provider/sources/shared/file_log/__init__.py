"""
The file log: a small Delta table beside a job's control tables that gives every row of an upstream's files a place.

Files are added to it once, in a stable order, each to one of a fixed number of splits. The rows of a file get the next
places of its split, in the order in which the file has them. So a row is identified for ever by its split and its
place, and the upstream is read like a topic.
"""

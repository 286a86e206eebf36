"""The life of a view, against making it anew."""

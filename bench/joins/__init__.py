"""Views over several upstreams, against computing the whole view again."""

"""Views of groups: an epoch against computing the whole view again."""

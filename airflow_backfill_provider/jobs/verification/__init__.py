"""Compares a view with its query step by step, and repairs what differs."""

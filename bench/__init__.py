"""Benchmarks. Only figures that these measure may be quoted."""

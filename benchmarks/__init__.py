"""Benchmarks against other methods; not part of the wheel."""

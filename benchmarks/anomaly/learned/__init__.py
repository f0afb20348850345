"""What learned blocks add to the scores of `MambaDetector`, one series at a time.

``python -m benchmarks.anomaly.learned run`` measures, ``report`` writes the table of
docs/accuracy-anomaly.md.
"""

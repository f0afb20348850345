"""Accuracy of anomaly detection: every method on the same series of public sets.

python -m benchmarks.anomaly run
python -m benchmarks.anomaly report
"""

"""Accuracy of forecasts: every contestant on the same windows of the same sets.

python -m benchmarks.forecast run
python -m benchmarks.forecast report
"""

"""Anomalies in logs: templates, sequences of templates and values, line by line or by session."""

"""Forecasts of events: values of each code in the bins of time after a stay's last event."""

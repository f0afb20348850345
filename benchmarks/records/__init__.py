"""Risks of hospital stays: the classifier beside other methods, in one harness."""

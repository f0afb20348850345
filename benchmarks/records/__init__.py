"""Risks and next values of hospital stays: ours beside other methods, in one harness."""

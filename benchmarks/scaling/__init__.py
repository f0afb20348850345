"""What several processes gain in training and in scoring, on one machine."""

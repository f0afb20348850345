"""What is unusual about a line or a session: frequencies, sequences, values, gaps and rates.

Every part gives a cost in nats, minus the logarithm of how often something like it is seen, learns
while it scores, is bounded, and is JSON when saved.
"""

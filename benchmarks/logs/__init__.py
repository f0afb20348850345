"""Speed of reading and judging logs."""

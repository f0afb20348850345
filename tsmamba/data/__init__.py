"""User frames in, one compact panel of series inside, and user frames out again."""

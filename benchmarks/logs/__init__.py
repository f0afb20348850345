"""How well and how fast logs are read, and what is found in them."""

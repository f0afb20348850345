"""What long context is worth: a task of pure memory, and more history than was trained on."""

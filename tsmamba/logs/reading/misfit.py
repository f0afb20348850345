"""What a reader raises inside the package when a line is not of its format."""

__all__ = ["Misfit"]


class Misfit(ValueError):
    """The line is not of the format; the parser takes it as raw and counts it."""

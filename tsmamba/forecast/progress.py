"""A progress bar for training; imported only where one is wanted."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(steps: int, *, show: bool) -> Iterator[Callable[[int, float], None]]:
    """Give a function to report steps to, behind a bar on the terminal or silent.

    Parameters
    ----------
    steps : int
        Steps in all.
    show : bool
        Whether to show anything.

    Yields
    ------
    callable
        Takes the number of steps done and the last loss.

    Examples
    --------
    >>> with progress_bar(2, show=False) as report:
    ...     report(1, 0.5)
    """
    if not show:
        yield lambda step, loss: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("training", total=steps)
        yield lambda step, loss: bar.update(
            task, completed=step, description=f"training, loss {loss:.4f}"
        )

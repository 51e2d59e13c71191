"""A progress bar for training, in a terminal; in a log it prints its last state."""

from __future__ import annotations

from sodgp.training.history import TrainingState


class ProgressBar:
    """A callback that shows iterations, time left and the bound.

    Parameters
    ----------
    max_iter : int
    label : str
        Shown in front of the bar.
    """

    def __init__(self, max_iter: int, label: str = "training") -> None:
        # Imported here: a fit that shows nothing needs no rich.
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn(label), BarColumn(), "{task.completed}/{task.total}", TimeRemainingColumn())
        self._bar = Progress(*columns, TextColumn("bound {task.fields[bound]}"))
        self._task = self._bar.add_task(label, total=max_iter, bound="")

    def __call__(self, state: TrainingState) -> None:
        """Show the state of training."""
        if not self._bar.live.is_started:
            self._bar.start()
        self._bar.update(self._task, completed=state.iteration, bound=f"{state.bound:.1f}")

    def close(self) -> None:
        """Leave the bar as it is and give the terminal back."""
        self._bar.stop()

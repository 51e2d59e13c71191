"""A progress bar for training, in a terminal; in a log it prints its last state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sodgp.training.history import TrainingState

if TYPE_CHECKING:
    from rich.progress import Progress


class ProgressBar:
    """A callback that shows iterations, time left and the bound.

    Parameters
    ----------
    max_iter : int
    label : str
        Shown in front of the bar.
    """

    def __init__(self, max_iter: int, label: str = "training") -> None:
        self._max_iter, self._label = max_iter, label
        self._bar: Progress | None = None

    def __call__(self, state: TrainingState) -> None:
        """Show the state of training."""
        if self._bar is None:
            self._bar = self._started()
        self._bar.update(self._bar.task_ids[0], completed=state.iteration, bound=f"{state.bound:.1f}")

    def close(self) -> None:
        """Leave the bar as it is and give the terminal back."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _started(self) -> Progress:
        # Imported here: what shows nothing, a model that is loaded from a file included, needs no rich.
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn(self._label), BarColumn(), "{task.completed}/{task.total}", TimeRemainingColumn())
        bar = Progress(*columns, TextColumn("bound {task.fields[bound]}"))
        bar.add_task(self._label, total=self._max_iter, bound="")
        bar.start()
        return bar

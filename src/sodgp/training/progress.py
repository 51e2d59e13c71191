"""A progress bar for training, in a terminal; in a log it prints a line now and then."""

from __future__ import annotations

from sodgp.training.loop import Callback, TrainingState


def progress_bar(max_iter: int, label: str = "training") -> Callback:
    """A callback that shows iterations, time left and the bound.

    Parameters
    ----------
    max_iter : int
    label : str
        Shown in front of the bar.
    """
    # Imported here: a fit that shows nothing needs no rich.
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(label), BarColumn(), "{task.completed}/{task.total}", TimeRemainingColumn())
    bar = Progress(*columns, TextColumn("bound {task.fields[bound]}"), transient=False)
    task = bar.add_task(label, total=max_iter, bound="")

    def show(state: TrainingState) -> None:
        if not bar.live.is_started:
            bar.start()
        bar.update(task, completed=state.iteration, bound=f"{state.bound:.1f}")
        if state.iteration >= state.max_iter:
            bar.stop()

    return show

"""The look that all pictures share: colours, axes and labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal, TypedDict

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The Okabe-Ito palette, safe for colour-blind readers; the blues of the bands differ in lightness.
MEAN: Final = "#08306b"
BAND_Y: Final = "#c6dbef"
BAND_F: Final = "#4292c6"
DRAW: Final = "#e69f00"
ALARM: Final = "#d55e00"
POINT: Final = "#0072b2"
GREEN: Final = "#009e73"
PURPLE: Final = "#cc79a7"
SKY: Final = "#56b4e9"
GREY: Final = "#6e6e6e"
CYCLE: Final = (POINT, DRAW, GREEN, PURPLE, ALARM, SKY)

# With more rows dots are small and faint, and rasterized in vector graphics.
MANY: Final = 1500


class Marks(TypedDict):
    """Look of marks without a line, for ``Axes.plot``."""

    marker: str
    linestyle: str
    markersize: float
    alpha: float
    markeredgewidth: float
    rasterized: bool


def dots(count: int) -> Marks:
    """Look of `count` dots, one per row."""
    many = count > MANY
    return {
        "marker": "o",
        "linestyle": "",
        "markersize": 1.8 if many else 3.2,
        "alpha": 0.35 if many else 1.0,
        "markeredgewidth": 0.0 if many else 1.0,
        "rasterized": many,
    }


def crosses(count: int) -> Marks:
    """Look of crosses among `count` rows."""
    size, width = (3.0, 0.8) if count > MANY else (5.0, 1.2)
    return {**dots(count), "marker": "x", "markersize": size, "markeredgewidth": width}


def axes_or_current(ax: Axes | None) -> Axes:
    """The Axes that was given, or Matplotlib's current one."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.gca()


def tidy(ax: Axes, *, grid: Literal["x", "y", "both", ""] = "both") -> Axes:
    """Two spines instead of four, and a faint grid behind the marks."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    if grid:
        ax.grid(axis=grid, color="0.9", linewidth=0.8)
    ax.set_axisbelow(True)
    return ax


def with_unit(name: str, unit: str) -> str:
    """``name (unit)``, or the name alone.

    Examples
    --------
    >>> with_unit("load", "kW"), with_unit("y", "")
    ('load (kW)', 'y')
    """
    return f"{plain(name)} ({plain(unit)})" if unit else plain(name)


def plain(text: str, limit: int = 26) -> str:
    r"""Text from data for a label: dollar signs do not begin mathematics, and long names are cut.

    Examples
    --------
    >>> plain("price in $"), plain("a" * 50, 10)
    ('price in \\$', 'aaaaaaaaa…')
    """
    shown = text if len(text) <= limit else f"{text[: limit - 1]}…"
    return "".join(c if c.isprintable() else " " for c in shown).replace("$", r"\$")


def told_apart(names: Sequence[str], limit: int = 26) -> list[str]:
    """Names that are cut where they are long, without what all of them share where the rest would be the same.

    Examples
    --------
    >>> told_apart(["length", "width"]), told_apart(["pressure_of_sensor_01", "pressure_of_sensor_02"], 12)
    (['length', 'width'], ['…01', '…02'])
    """
    names = list(names)
    cut = [name if len(name) <= limit else f"{name[: limit - 1]}…" for name in names]
    if len(set(cut)) == len(set(names)):
        return cut
    # Up to the last sign that parts words, so that "…01" and not "…1" is left.
    shared = _same_start(names)
    start = max((shared.rfind(sign) + 1 for sign in " _.-"), default=0)
    back = _same_start([name[start:][::-1] for name in names])
    end = len(back) if min(len(name) - start - len(back) for name in names) > 0 else 0
    kept = [name[start : len(name) - end] for name in names]
    marks = ("…" if start else "", "…" if end else "")
    return [f"{marks[0]}{name}{marks[1]}" if len(name) <= limit else f"{marks[0]}{name[: limit - 1]}…" for name in kept]


def _same_start(names: Sequence[str]) -> str:
    """What all names begin with."""
    first, last = min(names), max(names)
    return first[: next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))]

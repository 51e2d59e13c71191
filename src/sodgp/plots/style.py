"""One look for all pictures: colours, axes and labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe-Ito, told apart by all readers; the blues of the bands are of one hue and differ in lightness, also in grey.
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

# Above so many rows dots are small and faint, and become pixels in vector graphics.
MANY: Final = 1500


def dots(count: int) -> dict[str, Any]:
    """Looks of `count` dots, one a row."""
    many = count > MANY
    return {
        "linestyle": "",
        "markersize": 1.8 if many else 3.2,
        "alpha": 0.35 if many else 1.0,
        "markeredgewidth": 0.0 if many else 1.0,
        "rasterized": many,
    }


def crosses(count: int) -> dict[str, Any]:
    """Looks of crosses among `count` rows."""
    many = count > MANY
    return dots(count) | {"marker": "x", "markersize": 3.0 if many else 5.0, "markeredgewidth": 0.8 if many else 1.2}


def axes_or_current(ax: Axes | None) -> Any:
    """The Axes that was given, or Matplotlib's current one."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.gca()


def tidy(ax: Any, *, grid: str = "both") -> Any:
    """Two spines instead of four, and a faint grid behind the marks (``"x"``, ``"y"``, ``"both"`` or ``""``)."""
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
    r"""Text from data for a label: dollar signs are no mathematics there, and long names are cut.

    Examples
    --------
    >>> plain("price in $"), plain("a" * 50, 10)
    ('price in \\$', 'aaaaaaaaa…')
    """
    shown = text if len(text) <= limit else f"{text[: limit - 1]}…"
    return "".join(c if c.isprintable() else " " for c in shown).replace("$", r"\$")

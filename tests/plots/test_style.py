"""The look that all pictures share."""

from __future__ import annotations

import subprocess
import sys

from matplotlib.colors import to_hex
from plot_data import x

from sodgp import plots
from sodgp.plots.style import CYCLE, MANY, crosses, dots, plain, tidy, told_apart, with_unit


def test_the_current_axes_are_the_default(model):
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots()
    assert plots.plot_fit(model, x) is ax
    plt.close(figure)


def test_matplotlib_is_imported_when_a_picture_is_drawn():
    code = "import sys; import sodgp.plots; assert 'matplotlib' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_dots_of_many_rows_are_small_faint_and_pixels():
    few, many = dots(MANY), dots(MANY + 1)
    assert few["markersize"] > many["markersize"]
    assert (few["alpha"], few["rasterized"]) == (1.0, False)
    assert many["alpha"] < 1
    assert many["rasterized"]
    assert crosses(10)["marker"] == "x"


def test_axes_are_tidied_and_labels_are_plain(ax):
    assert tidy(ax, grid="x") is ax
    assert [side for side, spine in ax.spines.items() if spine.get_visible()] == ["left", "bottom"]
    assert with_unit("a\nb", "$") == r"a b (\$)"
    assert plain("x" * 26) == "x" * 26
    assert len({to_hex(colour) for colour in CYCLE}) == len(CYCLE)


def test_names_with_one_beginning_are_told_apart():
    names = [f"a_long_measurement_of_sensor_{i:02d}_in_kilopascal" for i in (1, 12)]
    assert told_apart(names, 20) == ["…01…", "…12…"]
    assert told_apart(["same_long_name", "same_long_name"], 8) == ["same_lo…", "same_lo…"]
    assert told_apart(["abcdefgh_1", "abcdefgh_1_2"], 8) == ["…1", "…1_2"]
    assert told_apart([]) == []

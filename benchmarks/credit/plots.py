"""The picture: routing value and success against rollouts spent, in the plain and in the confounded world."""

from collections.abc import Mapping
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks.credit.measures import Curves


def draw_curves(path: Path, curves: Mapping[str, Mapping[str, Curves]]) -> None:
    """One row a measure, one column a world (the outer key), one line a learner (the inner key)."""
    with mpl.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(9.5, 6.4), layout="constrained")
        axes = figure.subplots(2, len(curves), sharex=True, sharey="row", squeeze=False)
        for column, (world, by_learner) in enumerate(curves.items()):
            for name, learned in by_learner.items():
                for row, values_WE in enumerate((learned.value_WE, learned.success_WE)):
                    mean = values_WE.mean(0)
                    half = 1.96 * values_WE.std(0, ddof=1) / len(values_WE) ** 0.5
                    (line,) = axes[row, column].plot(learned.rollouts_E, mean, label=name, linewidth=1.5)
                    shade = {"color": line.get_color(), "alpha": 0.1, "linewidth": 0}
                    axes[row, column].fill_between(learned.rollouts_E, mean - half, mean + half, **shade)
            axes[0, column].set_title(world, loc="left")
            axes[0, column].axhline(0.9, color="grey", linewidth=0.8, linestyle=":")
            axes[1, column].set_xlabel("rollouts spent")
        axes[0, 0].set_ylabel("routing value (0 random, 1 oracle)")
        axes[1, 0].set_ylabel("success as executed then")
        figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside right upper", frameon=False)
        figure.savefig(path, dpi=110, metadata={"Software": None})

"""Charts of the report, as inline SVG drawn by matplotlib.

The model: every chart is a string that may be put into an HTML page as it stands. Colours are placeholders
while matplotlib draws and CSS variables afterwards, so that one drawing reads well on light and dark pages.
Equal inputs give equal bytes: ids are salted by the chart's name, and no date is written.
"""

import html
import io
import math
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

_INK, _FAINT, _ACCENT = "#0a0b0c", "#0a0b0d", "#0a0b0e"
_VARIABLES = {_INK: "currentColor", _FAINT: "var(--faint)", _ACCENT: "var(--accent)"}
_STRONGEST = 0.65  # opacity of a full heat cell: text on it stays readable
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text
    "font.family": "sans-serif",
    "font.size": 9.0,
    "text.parse_math": False,  # a dollar sign in a name is a dollar sign
    "axes.edgecolor": _FAINT,
    "axes.labelcolor": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9.5,
    "text.color": _INK,
    "xtick.color": _FAINT,
    "ytick.color": _FAINT,
    "xtick.labelcolor": _INK,
    "ytick.labelcolor": _INK,
    "grid.color": _FAINT,
    "grid.alpha": 0.35,
    "grid.linewidth": 0.6,
    "savefig.transparent": True,
}


@dataclass(frozen=True)
class Dot:
    """One row of an interval chart; `low` or `high` may be NaN (no interval)."""

    label: str
    value: float
    low: float
    high: float


def interval_chart(name: str, dots: Sequence[Dot], axis: str, *, zero_line: bool = False) -> str:
    """Dots with their intervals, one row each, first on top; `axis` names the horizontal axis."""
    with _drawing(name):
        figure = Figure(figsize=(5.6, 0.55 + 0.34 * len(dots)), layout="constrained")
        axes = figure.subplots()
        for row, dot in enumerate(dots):
            if math.isfinite(dot.low) and math.isfinite(dot.high):
                axes.plot([dot.low, dot.high], [row, row], color=_ACCENT, linewidth=2, solid_capstyle="round")
            axes.plot([dot.value], [row], marker="o", markersize=6, color=_ACCENT)
        if zero_line:
            axes.axvline(0, color=_INK, linewidth=0.9, linestyle=(0, (4, 3)))
        else:
            axes.set_xlim(-0.02, 1.02)
        axes.set_yticks(range(len(dots)), [dot.label for dot in dots])
        axes.set_ylim(len(dots) - 0.5, -0.5)
        axes.set_xlabel(axis)
        axes.grid(axis="x")
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        described = "; ".join(f"{d.label} {d.value:.3f} ({d.low:.3f} to {d.high:.3f})" for d in dots)
        return _svg(figure, name, f"{axis}: {described}")


def line_chart(name: str, title: str, lines: Sequence[tuple[Sequence[float], Sequence[float]]]) -> str:
    """A value by training step; one (steps, values) pair a training seed, raw (thin) and smoothed (thick)."""
    with _drawing(name):
        figure = Figure(figsize=(3.5, 2.15), layout="constrained")
        axes = figure.subplots()
        for steps, values in lines:
            smooth = _trailing_mean(values, max(1, len(values) // 10))
            axes.plot(steps, values, color=_ACCENT, linewidth=0.8, alpha=0.4)
            axes.plot(steps, smooth, color=_ACCENT, linewidth=1.8, marker="o" if len(steps) < 3 else None)
        axes.set_title(title, loc="left")
        axes.set_xlabel("step")
        axes.locator_params(axis="x", integer=True, nbins=6)
        axes.grid(axis="y")
        ends = "; ".join(f"from {values[0]:.3g} to {values[-1]:.3g}" for _, values in lines)
        return _svg(figure, name, f"{title} by training step: {ends}")


def heat_chart(
    name: str,
    rows: Sequence[str],
    columns: Sequence[str],
    cells: Sequence[Sequence[float]],
    *,
    axes_names: tuple[str, str],
    number: str = "{:.2f}",
) -> str:
    """A matrix of non-negative numbers, shaded by size and written out; `axes_names` are (rows, columns)."""
    top = max((value for line in cells for value in line), default=0.0) or 1.0
    with _drawing(name):
        size = (1.5 + 0.52 * len(columns), 1.15 + 0.3 * len(rows))
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots()
        for y, line in enumerate(cells):
            for x, value in enumerate(line):
                _cell(axes, x, y, value / top, number.format(value) if value else "")
        axes.set_xlim(-0.5, len(columns) - 0.5)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xticks(range(len(columns)), columns, rotation=40, ha="right", rotation_mode="anchor")
        axes.set_yticks(range(len(rows)), rows)
        axes.set_ylabel(axes_names[0])
        axes.set_xlabel(axes_names[1])
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        return _svg(figure, name, f"{axes_names[0]} against {axes_names[1]}, {len(rows)} by {len(columns)} cells")


def _drawing(name: str) -> AbstractContextManager[None]:
    return mpl.rc_context(_STYLE | {"svg.hashsalt": name})


def _cell(axes: Axes, x: int, y: int, strength: float, text: str) -> None:
    axes.add_patch(Rectangle((x - 0.48, y - 0.46), 0.96, 0.92, color=_FAINT, alpha=0.12, linewidth=0))
    if text:
        shade = 0.08 + (_STRONGEST - 0.08) * strength
        axes.add_patch(Rectangle((x - 0.48, y - 0.46), 0.96, 0.92, color=_ACCENT, alpha=shade, linewidth=0))
        axes.text(x, y, text, ha="center", va="center", fontsize=8)


def _trailing_mean(values: Sequence[float], window: int) -> list[float]:
    spans = [values[max(0, end - window) : end] for end in range(1, len(values) + 1)]
    return [sum(span) / len(span) for span in spans]


def _svg(figure: Figure, name: str, description: str) -> str:
    """Draw, and make the result fit for a page: own ids, CSS colours, scaled by width, described in words."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    drawing = buffer.getvalue()
    body = drawing[drawing.index(">", drawing.index("<svg")) + 1 :]
    body = re.sub(r"<metadata>.*?</metadata>\s*", "", body, flags=re.DOTALL)
    # Charts share one page, and an HTML id is unique in it.
    body = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", body)
    for placeholder, variable in _VARIABLES.items():
        body = body.replace(placeholder, variable)
    width, height = (72 * side for side in figure.get_size_inches())
    label = html.escape(description, quote=True)
    box = f'viewBox="0 0 {width:g} {height:g}" style="width: {width * 4 / 3:.0f}px"'
    return f'<svg class="chart" role="img" aria-label="{label}" {box}>{body.strip()}'

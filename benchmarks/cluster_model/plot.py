"""A line chart as SVG: a few kilobytes, the same bytes for the same numbers, no library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from xml.sax.saxutils import escape

WIDTH: Final = 720
HEIGHT: Final = 380
LEFT: Final = 60
TOP: Final = 40
RIGHT: Final = 220
BOTTOM: Final = 50
COLOURS: Final = ("#8a8a8a", "#1b6ca8", "#c0392b", "#d68910", "#1e8449")
TICKS: Final = 5


def line_chart(curves: Mapping[str, Sequence[tuple[float, float]]], x_name: str, y_name: str, title: str) -> str:
    """Curves over one pair of axes that begin at 0.

    Args:
        curves: Name -> points, in order.
        x_name: Name of the horizontal axis.
        y_name: Name of the vertical axis.
        title: Title above the chart.
    """
    most_x = max(x for points in curves.values() for x, _ in points)
    most_y = max(max(y for points in curves.values() for _, y in points), 1.0)
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def place(x: float, y: float) -> tuple[float, float]:
        return LEFT + wide * x / most_x, TOP + high * (1 - y / most_y)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="24" font-size="15">{escape(title)}</text>',
        f'<text x="{LEFT + wide / 2:.0f}" y="{HEIGHT - 12}" text-anchor="middle">{escape(x_name)}</text>',
        f'<text transform="translate(16 {TOP + high / 2:.0f}) rotate(-90)" text-anchor="middle">{escape(y_name)}</text>',
    ]
    for tick in range(TICKS + 1):
        x, y = place(most_x * tick / TICKS, most_y * tick / TICKS)
        parts.append(f'<path d="M{LEFT} {y:.1f} H{LEFT + wide}" stroke="#dddddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{most_y * tick / TICKS:.0f}</text>')
        parts.append(f'<text x="{x:.1f}" y="{TOP + high + 18}" text-anchor="middle">{most_x * tick / TICKS:.0f}</text>')
    for index, (name, points) in enumerate(curves.items()):
        colour = COLOURS[index % len(COLOURS)]
        path = " ".join(f"{'L' if i else 'M'}{x:.1f} {y:.1f}" for i, (x, y) in enumerate(place(*one) for one in points))
        parts.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        key = TOP + 16 * index
        parts.append(f'<path d="M{LEFT + wide + 16} {key} h22" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="{LEFT + wide + 44}" y="{key + 4}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"

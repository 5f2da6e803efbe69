"""Pictures of grid worlds: a sprite for each kind of thing, drawn once and laid on the cells."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageColor, ImageDraw

from openmanus_rl.environments.grid_layout import Layout
from openmanus_rl.environments.grid_space import Position
from openmanus_rl.environments.grid_spec import COLORS, GridSpec

__all__ = ["Painter"]

Pixels = NDArray[np.uint8]
Point = tuple[float, float]

_CELL = 32
_MAX_SIDE = 1024
# Sprites are drawn larger and scaled down: Pillow draws no smooth edges itself.
_FINE = 4
_FLOOR, _LINE, _WALL, _WALL_TOP = "#f7f8fa", "#e6e8ec", "#4b5261", "#5d6576"
_USUAL = {"goal": COLORS["green"], "item": COLORS["yellow"], "trap": COLORS["orange"], "block": COLORS["brown"]}


class Painter:
    """Draws a world, with 32 pixels a cell, or fewer where the picture would be larger than 1024."""

    def __init__(self, spec: GridSpec) -> None:
        self._spec = spec
        self._cell = max(8, min(_CELL, _MAX_SIDE // max(spec.size.width, spec.size.height)))
        self._floor = self._draw_floor()
        self._things = [_sprite(each.kind, each.color or _USUAL[each.kind], self._cell) for each in spec.objects]
        self._others = [_sprite("other", each.color or COLORS["purple"], self._cell) for each in spec.others]
        self._agent_color = spec.trained.color or COLORS["blue"]

    def paint(self, layout: Layout, facing: Position) -> Pixels:
        """Return the picture: rows of red, green and blue."""
        picture = self._floor.copy()
        for thing in layout.things:
            if thing.cell is not None:
                self._lay(picture, self._things[thing.number], thing.cell)
        for sprite, cell in zip(self._others, layout.others, strict=True):
            self._lay(picture, sprite, cell)
        self._lay(picture, _sprite("agent", self._agent_color, self._cell, facing), layout.agent)
        return picture

    def _draw_floor(self) -> Pixels:
        cell, size = self._cell, self._spec.size
        image = Image.new("RGB", (size.width * cell, size.height * cell), _FLOOR)
        draw = ImageDraw.Draw(image)
        for x in range(size.width):
            draw.line([(x * cell, 0), (x * cell, image.height)], fill=_LINE)
        for y in range(size.height):
            draw.line([(0, y * cell), (image.width, y * cell)], fill=_LINE)
        walls = set(self._spec.walls)
        for x, y in walls:
            left, top = x * cell, y * cell
            draw.rectangle([left, top, left + cell - 1, top + cell - 1], fill=_WALL)
            if (x, y - 1) not in walls:
                draw.rectangle([left, top, left + cell - 1, top + cell // 8 - 1], fill=_WALL_TOP)
        return np.asarray(image)

    def _lay(self, picture: Pixels, sprite: NDArray[np.float32], at: Position) -> None:
        top, left = at[1] * self._cell, at[0] * self._cell
        area = picture[top : top + self._cell, left : left + self._cell]
        opacity = sprite[..., 3:]
        area[:] = np.rint(sprite[..., :3] * opacity + area * (1 - opacity)).astype(np.uint8)


@lru_cache(maxsize=256)
def _sprite(kind: str, color: str, cell: int, facing: Position = (1, 0)) -> NDArray[np.float32]:
    """Return colours from 0 to 255 and the opacity from 0 to 1 of a cell's picture."""
    side = cell * _FINE
    # Transparent pixels have the colour too, so that edges do not darken when it is scaled down.
    image = Image.new("RGBA", (side, side), (*ImageColor.getrgb(color)[:3], 0))
    pen = _Pen(ImageDraw.Draw(image), side, color)
    if kind == "agent":
        _draw_agent(pen, facing)
    else:
        _DRAWINGS[kind](pen)
    found = np.array(image.resize((cell, cell), Image.Resampling.BOX), np.float32)
    found[..., 3] /= 255
    found.setflags(write=False)
    return found


class _Pen:
    """Draws in a cell whose sides are 1 long."""

    def __init__(self, draw: Any, side: int, color: str) -> None:
        self._draw = draw
        self._side = side
        self.color = color
        self.dark = _mixed(color, "#000000", 0.28)
        self.light = _mixed(color, "#ffffff", 0.55)

    def polygon(self, points: Sequence[Point], fill: str) -> None:
        self._draw.polygon([(x * self._side, y * self._side) for x, y in points], fill=fill)

    def circle(self, x: float, y: float, radius: float, fill: str) -> None:
        self._draw.ellipse(
            [(each * self._side) for each in (x - radius, y - radius, x + radius, y + radius)], fill=fill
        )

    def box(self, margin: float, radius: float, fill: str) -> None:
        low, high = margin * self._side, (1 - margin) * self._side - 1
        self._draw.rounded_rectangle([low, low, high, high], radius=radius * self._side, fill=fill)

    def line(self, points: Sequence[Point], width: float, fill: str) -> None:
        pixels = max(1, round(width * self._side))
        self._draw.line([(x * self._side, y * self._side) for x, y in points], fill=fill, width=pixels, joint="curve")


def _draw_agent(pen: _Pen, facing: Position) -> None:
    turn = math.atan2(facing[1], facing[0])

    def turned(scale: float) -> list[Point]:
        corners = ((0.40, 0.0), (-0.32, 0.33), (-0.16, 0.0), (-0.32, -0.33))
        sine, cosine = math.sin(turn) * scale, math.cos(turn) * scale
        return [(0.5 + x * cosine - y * sine, 0.5 + x * sine + y * cosine) for x, y in corners]

    pen.polygon(turned(1.0), pen.dark)
    pen.polygon(turned(0.76), pen.color)


def _draw_other(pen: _Pen) -> None:
    pen.circle(0.5, 0.5, 0.36, pen.dark)
    pen.circle(0.5, 0.5, 0.30, pen.color)
    for x in (0.39, 0.61):
        pen.circle(x, 0.44, 0.085, "#ffffff")
        pen.circle(x, 0.45, 0.04, "#22252b")


def _draw_goal(pen: _Pen) -> None:
    pen.box(0.06, 0.16, pen.light)
    points = []
    for number in range(10):
        radius, angle = (0.36 if number % 2 == 0 else 0.16), math.pi * (number / 5 - 0.5)
        points.append((0.5 + radius * math.cos(angle), 0.53 + radius * math.sin(angle)))
    pen.polygon(points, pen.color)


def _draw_item(pen: _Pen) -> None:
    pen.polygon([(0.5, 0.14), (0.82, 0.5), (0.5, 0.86), (0.18, 0.5)], pen.dark)
    pen.polygon([(0.5, 0.21), (0.76, 0.5), (0.5, 0.79), (0.24, 0.5)], pen.color)
    pen.polygon([(0.5, 0.21), (0.5, 0.5), (0.24, 0.5)], pen.light)


def _draw_trap(pen: _Pen) -> None:
    pen.box(0.03, 0.1, pen.color)
    for y in (0.30, 0.52, 0.74):
        wave = [(0.14 + 0.72 * t / 24, y + 0.055 * math.sin(t / 24 * 4 * math.pi)) for t in range(25)]
        pen.line(wave, 0.06, pen.dark)


def _draw_block(pen: _Pen) -> None:
    pen.box(0.06, 0.08, pen.dark)
    pen.box(0.13, 0.04, pen.color)
    pen.line([(0.2, 0.2), (0.8, 0.8)], 0.07, pen.dark)
    pen.line([(0.8, 0.2), (0.2, 0.8)], 0.07, pen.dark)


_DRAWINGS: dict[str, Callable[[_Pen], None]] = {
    "goal": _draw_goal,
    "item": _draw_item,
    "trap": _draw_trap,
    "block": _draw_block,
    "other": _draw_other,
}


def _mixed(color: str, other: str, share: float) -> str:
    pairs = zip(ImageColor.getrgb(color)[:3], ImageColor.getrgb(other)[:3], strict=True)
    return "#" + "".join(f"{round(one * (1 - share) + two * share):02x}" for one, two in pairs)

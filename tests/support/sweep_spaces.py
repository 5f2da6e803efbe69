"""Spaces of sweeps, good and bad, that Python and the database must judge alike."""

from __future__ import annotations

from typing import Any

CONFIG: dict[str, Any] = {
    "seed": 1,
    "arguments": ["a"],
    "policy": None,
    "hyperparameters": {"learning_rate": 0.1, "net": {"layers": 2}},
}
"""The configuration that they vary."""

GOOD: dict[str, dict[str, Any]] = {
    "values": {"seed": {"values": [1, 2.5, "a", True, None, [1, 2], {"a": 1}]}},
    "one value": {"seed": {"values": [0]}},
    "true beside 1": {"seed": {"values": [1, True, "1", 0, False]}},
    "range": {"hyperparameters.learning_rate": {"min": -1, "max": 0.5}},
    "log": {"hyperparameters.learning_rate": {"min": 1e-300, "max": 1e300, "log": True}},
    "step": {"hyperparameters.learning_rate": {"min": 0, "max": 1, "step": 0.1}},
    "integers": {"hyperparameters.n": {"min": 1, "max": 9, "integer": True, "step": 2}},
    "whole as float": {"hyperparameters.n": {"min": 1.0, "max": 9.0, "integer": True}},
    "one point": {"hyperparameters.n": {"min": 3, "max": 3}},
    "new path": {"evaluation.episodes.deep": {"values": [1, 2]}},
    "through null": {"policy.kind": {"values": [1, 2]}},
    "unicode": {"hyperparameters.λ 学習": {"values": ["é", "🤖"]}},
    "prefix but not inside": {"a": {"values": [1]}, "ab.c": {"values": [1]}},
}

RANGE = "hyperparameters.lr"
BAD: dict[str, tuple[Any, str]] = {
    "nothing": ({}, "space"),
    "a list": ([1], "space"),
    "no object": ({"seed": 3}, "space.seed"),
    "unknown key": ({"seed": {"values": [1], "valeus": 2}}, "space.seed.valeus"),
    "values and min": ({"seed": {"values": [1], "min": 2}}, "space.seed"),
    "empty values": ({"seed": {"values": []}}, "space.seed.values"),
    "values is no list": ({"seed": {"values": "abc"}}, "space.seed.values"),
    "duplicate": ({"seed": {"values": [1, 2, 1]}}, "space.seed.values"),
    "duplicate as float": ({"seed": {"values": [1, 1.0]}}, "space.seed.values"),
    "duplicate object": ({"seed": {"values": [{"a": 1, "b": [2]}, {"b": [2.0], "a": 1}]}}, "space.seed.values"),
    "no min": ({RANGE: {"max": 1}}, f"space.{RANGE}.min"),
    "no max": ({RANGE: {"min": 1}}, f"space.{RANGE}.max"),
    "empty object": ({RANGE: {}}, f"space.{RANGE}.min"),
    "text as min": ({RANGE: {"min": "1", "max": 2}}, f"space.{RANGE}.min"),
    "true as max": ({RANGE: {"min": 0, "max": True}}, f"space.{RANGE}.max"),
    "beyond floats": ({RANGE: {"min": 0, "max": 10**301}}, f"space.{RANGE}.max"),
    "beneath floats": ({RANGE: {"min": 1e-310, "max": 1}}, f"space.{RANGE}.min"),
    "a step beneath floats": ({RANGE: {"min": 0, "max": 1, "step": 1e-310}}, f"space.{RANGE}.step"),
    "min above max": ({RANGE: {"min": 2, "max": 1}}, f"space.{RANGE}.min"),
    "log from 0": ({RANGE: {"min": 0, "max": 1, "log": True}}, f"space.{RANGE}.min"),
    "log below 0": ({RANGE: {"min": -1, "max": 1, "log": True}}, f"space.{RANGE}.min"),
    "log with step": ({RANGE: {"min": 1, "max": 2, "log": True, "step": 0.1}}, f"space.{RANGE}.step"),
    "log is no flag": ({RANGE: {"min": 1, "max": 2, "log": 1}}, f"space.{RANGE}.log"),
    "log is null": ({RANGE: {"min": 1, "max": 2, "log": None}}, f"space.{RANGE}.log"),
    "integer is text": ({RANGE: {"min": 1, "max": 2, "integer": "true"}}, f"space.{RANGE}.integer"),
    "step 0": ({RANGE: {"min": 1, "max": 2, "step": 0}}, f"space.{RANGE}.step"),
    "negative step": ({RANGE: {"min": 1, "max": 2, "step": -1}}, f"space.{RANGE}.step"),
    "step is null": ({RANGE: {"min": 1, "max": 2, "step": None}}, f"space.{RANGE}.step"),
    "integer with a fraction": ({RANGE: {"min": 0.5, "max": 2, "integer": True}}, f"space.{RANGE}.min"),
    "integer with half a step": ({RANGE: {"min": 0, "max": 2, "integer": True, "step": 0.5}}, f"space.{RANGE}.step"),
    "large integer": ({RANGE: {"min": 0, "max": 2**53, "integer": True}}, f"space.{RANGE}.max"),
    "empty path": ({"": {"values": [1]}}, "space."),
    "empty part": ({"a..b": {"values": [1]}}, "space.a..b"),
    "dot at the end": ({"a.": {"values": [1]}}, "space.a."),
    "long path": ({"a" * 501: {"values": [1]}}, "space." + "a" * 501),
    "through a number": ({"seed.inner": {"values": [1]}}, "space.seed.inner"),
    "through a list": ({"arguments.0": {"values": [1]}}, "space.arguments.0"),
    "through a number below": ({"hyperparameters.net.layers.x": {"values": [1]}}, "space.hyperparameters.net.layers.x"),
    "inside of another": ({"hyperparameters": {"values": [{}]}, RANGE: {"values": [1]}}, f"space.{RANGE}"),
}

BAD_GRIDS: dict[str, tuple[str, Any, str]] = {
    "a range without step": ("grid", {RANGE: {"min": 0, "max": 1}}, f"space.{RANGE}"),
    "a logarithmic range": ("grid", {RANGE: {"min": 1, "max": 2, "log": True}}, f"space.{RANGE}"),
    "10001 points": ("grid", {"seed": {"min": 0, "max": 10_000, "integer": True}}, "space"),
    "10001 points of two": ("grid", {"a": {"values": [*range(73)]}, "b": {"values": [*range(137)]}}, "space"),
    "uncountably many": ("grid", {"a": {"min": 0, "max": 1e300, "step": 1e-300}}, "space"),
}

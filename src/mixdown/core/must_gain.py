"""Where time decides, a graph as a whole must gain: `worth`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixdown.core.paint import Canvas, Paint, Stroke, Strokes
from mixdown.core.pricing.predicted_time import TimePrices

if TYPE_CHECKING:
    from mixdown.core.policy_view import Scene


def worth(scene: Scene, canvas: Canvas) -> Strokes:
    """Everything is full if the plan is not predicted to save as much as the prediction is sure of."""
    prices = scene.prices
    if not isinstance(prices, TimePrices) or Paint.LOW not in canvas:
        return {}
    paints = [paint or Paint.FULL for paint in canvas]
    before, after = prices.seconds([Paint.FULL] * len(paints)), prices.seconds(paints)
    if after <= (1 - prices.machine.least_gain) * before:
        return {}
    return {site: Stroke(Paint.FULL, "worth") for site, paint in enumerate(paints) if paint is Paint.LOW}

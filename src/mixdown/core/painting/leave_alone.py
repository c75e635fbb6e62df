"""Whether 16 bits gain anything in a compiled graph: `leave_alone`.

A product rounds what it reads, and a compiler stores the rounded copies. Where little else is read or written, as by
large weights that meet a few rows, the copies cost more than they save: a weight that was read once, four bytes an
element, is read, written and read again, eight bytes. Arithmetic is faster in 16 bits, but that only counts where it
takes longer than the memory traffic.
"""

from __future__ import annotations

from mixdown.core.paint import Canvas, Paint, Stroke, Strokes
from mixdown.core.policy_view import PolicyView
from mixdown.core.pricing import CompiledRun
from mixdown.core.pricing.moved_bytes import is_known
from mixdown.rules import Category

BUSY = 32
"""Operations a byte, from which on float32 arithmetic may take longer than its memory traffic (T4: 25, A100: 80)."""
CLEAR = 0.85
"""By less than this share of float32's prices, an assignment is so much cheaper that nobody needs to look closer."""
WORTH = 2**21
"""Fewer bytes than this are moved in the time that a kernel takes to start."""


def leave_alone(view: PolicyView, canvas: Canvas) -> Strokes:
    """A compiled graph that moves more bytes in 16 bits, and does little arithmetic with them, is full altogether.

    Unless the policy allows kinds of its own: whoever names them wants them in 16 bits.
    """
    if not _is_in_doubt(view, canvas):
        return {}
    float32, mixed = (
        CompiledRun(view.graph, view.traits, view.categories, paints).bytes
        for paints in ([Paint.FULL] * len(canvas), [paint or Paint.FULL for paint in canvas])
    )
    if mixed < float32 + WORTH or sum(view.graph.work) > BUSY * float32:
        return {}
    return {site: Stroke(Paint.FULL, "leave_alone") for site, paint in enumerate(canvas) if paint is Paint.LOW}


def _is_in_doubt(view: PolicyView, canvas: Canvas) -> bool:
    """Whether the sizes of all products are known, and their arithmetic and the prices leave the question open."""
    graph, prices = view.graph, view.prices
    if not (graph.is_compiled and graph.work) or any(rule.category is Category.ALLOW for rule in view.policy.overrides):
        return False
    products = [op for op, work in zip(graph.ops, graph.work, strict=True) if work]
    touched = {tensor for op in products for site in op.sites for tensor in graph.touched[site]}
    known = all(op.compiled for op in products) and all(is_known(graph.shapes[tensor]) for tensor in touched)
    if not (products and known) or sum(graph.work) > BUSY * 4 * sum(map(prices.elements, touched)):
        return False
    paints = [paint or Paint.FULL for paint in canvas]
    return prices.traffic(paints).total > CLEAR * prices.traffic([Paint.FULL] * len(paints)).total

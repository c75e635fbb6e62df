"""The chain of causes behind a paint, in words. Start with `explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixdown.core.graph import Role
from mixdown.core.paint import Paint
from mixdown.rules import Category

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mixdown.core.paint import Stroke
    from mixdown.core.scene import Scene

DENIED = "{kind} is on the deny list"
REASONS = {
    "seed": "{kind} is on the allow list",
    "taint": "it follows a denied op, through {causes}",
    "match_lists": "it shares a tensor list with {causes}",
    "bridge": "it lies between low ops, from {causes}",
    "follow": "it directly follows {causes}, which is low",
    "soak": "{kind} only moves values, and its neighbour {causes} is low",
    "carry": "it carries a value into or out of a function, and {causes} is low",
    "strip": "{kind} is not defined for {low} here",
    "match_loops": "it carries the same value as {causes}",
    "retarget": "it is a cast that was there already, and all its consumers, such as {causes}, are low",
}
"""Stage -> the sentence for its strokes; the two stages whose reason lies in the graph have a function below."""


def explain(scene: Scene, strokes: Sequence[Sequence[Stroke]], name: str) -> str:
    """Why the sites of an op have their paint: one line a decision, from effect to cause."""
    ops = [op for op in scene.graph.ops if name in (op.name, op.label)]
    if not ops:
        raise KeyError(f"No op named {name!r} has a float32 port in this graph.")
    return "\n".join("\n".join(_chain(scene, strokes, site)) for op in ops for site in op.sites)


def _chain(scene: Scene, strokes: Sequence[Sequence[Stroke]], site: int) -> list[str]:
    """The decision on a site, then the decisions that caused it, each once."""
    lines: list[str] = []
    queue = [site]
    for here in queue:
        stroke = strokes[here][-1]
        indent = "" if here == site else "  "
        kind = scene.graph.kind(here)
        paint = scene.policy.low if stroke.paint is Paint.LOW else "float32"
        lines.append(f"{indent}{scene.graph.label(here)} ({kind}) is {paint}: {reason(scene, stroke, here)}")
        queue.extend(cause for cause in stroke.because if cause not in queue)
    return lines


def reason(scene: Scene, stroke: Stroke, site: int) -> str:
    """One decision in words."""
    if stroke.stage == "rest":
        return _left_alone(scene, site)
    if stroke.stage == "freeze_lists":
        return _frozen_list(scene, site)
    causes = " and ".join(f"`{scene.graph.label(cause)}`" for cause in stroke.because)
    sentence = DENIED if stroke.stage == "taint" and not causes else REASONS[stroke.stage]
    return sentence.format(kind=scene.graph.kind(site), low=scene.policy.low, causes=causes)


def _frozen_list(scene: Scene, site: int) -> str:
    tie = next(tie for tie in scene.graph.ties if site in tie.sites)
    return tie.frozen or "its tensor list is also used by an op that must keep its types"


def _left_alone(scene: Scene, site: int) -> str:
    """Why no stage touched a site."""
    graph = scene.graph
    op, its = graph.ops[graph.sites[site].op], graph.sites[site]
    category = scene.categories[site]
    obstacles = {
        scene.demoted.get(site): site in scene.demoted,
        op.frozen: op.frozen is not None,
        "it reads a variable, which stays float32": its.role is Role.VARIABLE_READ,
        f"{op.kind} is on no list": category is Category.BARRIER,
        f"{op.kind} is not defined for {scene.policy.low} here": not its.legal,
        f"{op.kind} has no {scene.policy.low} kernel on its device": not its.kernel,
        "no allow op is both before and after it": category is Category.INFER,
    }
    return next((why for why, true in obstacles.items() if true and why), "no neighbour of it is low")

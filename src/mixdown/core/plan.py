"""The finished decision. Start with `make_plan`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mixdown.core.check import offenders
from mixdown.core.graph import Graph
from mixdown.core.override import Override
from mixdown.core.paint import Cast, Paint, Stroke, casts_of
from mixdown.core.painting.leave_alone import leave_alone
from mixdown.core.painting.strategies import paint
from mixdown.core.policy import Policy
from mixdown.core.policy_view import PolicyView
from mixdown.core.pricing import CompiledRun, FusedPrices, Predicted, TimePrices
from mixdown.core.pricing.effort import effort_of
from mixdown.core.pricing.machines import Machine
from mixdown.core.why import explain
from mixdown.errors import PlanError


@dataclass(frozen=True)
class Plan:
    """What becomes low, which casts that takes, and why. Two plans are equal if they decide the same.

    Paints and casts follow from the strokes, so they cannot contradict them.

    Raises:
        PlanError: a site breaks one of the laws in `mixdown.core.check`.
    """

    view: PolicyView
    strokes: tuple[tuple[Stroke, ...], ...]
    """Per site, the decisions on it in order; the last one holds."""

    def __post_init__(self) -> None:
        for site, law in offenders(self.view, self.paints).items():
            raise PlanError(f"{self.graph.label(site)} cannot be planned like this: {law}.")

    @cached_property
    def paints(self) -> tuple[Paint, ...]:
        """Per site, its paint."""
        return tuple(history[-1].paint for history in self.strokes)

    @cached_property
    def casts(self) -> tuple[Cast, ...]:
        """The conversions that the paints take."""
        return tuple(casts_of(self.graph, self.paints, reads_of(self.view, self.paints)))

    @cached_property
    def stored(self) -> tuple[int, ...]:
        """The bfloat16 values that the compiler has to be told to store, because that moves the fewest bytes.

        XLA computes in float32 what is bfloat16 and leaves out the rounding of what it does not store for a library
        call. So it would store these in float32, or compute them again for each of their readers.
        """
        prices, tensors = self.view.prices, self.graph.tensors
        if not isinstance(prices, FusedPrices) or self.policy.low != "bfloat16":
            return ()
        low = [t for t, tensor in enumerate(tensors) if self.paints[tensor.site] is Paint.LOW]
        return tuple(tensor for tensor in low if prices.pays_to_store(tensor))

    @property
    def graph(self) -> Graph:
        """The graph the plan is for."""
        return self.view.graph

    @property
    def policy(self) -> Policy:
        """The policy it follows."""
        return self.view.policy

    @property
    def changes_anything(self) -> bool:
        """Whether any site is low."""
        return Paint.LOW in self.paints

    @property
    def summary(self) -> str:
        """The plan in one line."""
        return summary_of(self.view, self.paints)

    @property
    def idle_reason(self) -> str:
        """Why nothing is low, "" if something is."""
        if self.changes_anything:
            return ""
        if any(history[-1].stage == leave_alone.__name__ for history in self.strokes):
            return f"it would move more bytes with {self.policy.low} copies of what it reads than it does in float32"
        return f"no op in it can run in {self.policy.low}"

    @property
    def idle_overrides(self) -> list[Override]:
        """The policy's name, scope and attribute overrides that match no float32 op of this graph."""
        return [override for override, sites in self.view.selected if not sites]

    def predicted(self, machine: Machine) -> Predicted:
        """How long the plan takes on a machine, beside float32."""
        if self.graph.is_compiled:
            float32, mixed = (run.seconds(machine, self.policy.low) for run in self.compiled_runs(self.paints))
            return Predicted(machine.source, float32, mixed)
        prices = TimePrices(self.graph, self.view.traits, machine, self.policy.low)
        return prices.prediction(self.paints)

    def compiled_runs(self, paints: Sequence[Paint]) -> tuple[CompiledRun, CompiledRun]:
        """One run of a compiled graph, in float32 and by these paints."""
        view, full = self.view, [Paint.FULL] * len(paints)
        float32, mixed = (CompiledRun(view.graph, view.traits, view.categories, each) for each in (full, paints))
        return float32, mixed

    def why(self, op: str) -> str:
        """The chain of causes behind the paint of an op, for people.

        Raises:
            KeyError: the graph has no such op, or it has nothing that could be low.
        """
        return explain(self.view, self.strokes, op)

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain data, for JSON and for comparison."""
        label = self.graph.label
        return {
            "policy": self.policy.to_dict(),
            "sites": {label(site): [_plain(self.graph, stroke) for stroke in s] for site, s in enumerate(self.strokes)},
            "casts": sorted([self.graph.tensors[cast.tensor].name, cast.to.value] for cast in self.casts),
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plan) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]  # compared by value, and too large to be a key


def make_plan(graph: Graph, policy: Policy) -> Plan:
    """Paint a graph as the policy says, and prove the result against the laws.

    A site that breaks a law is demoted and the painting made again.

    Raises:
        PlanError: the same site broke a law twice, which only a bug can cause.
    """
    policy = policy.untuned
    demoted: dict[int, str] = {}
    outer: frozenset[int] = frozenset()
    while True:
        view = PolicyView(graph, policy, demoted, outer)
        strokes = paint(view)
        paints = [history[-1].paint for history in strokes]
        if found := view.outer_products(paints):  # known by shapes, which are inferred for what is low only
            outer |= found
            continue
        culprits = offenders(view, paints)
        if not culprits:
            return Plan(view, tuple(map(tuple, strokes)))
        demoted = _demote(graph, demoted, culprits)


def reads_of(view: PolicyView, paints: Sequence[Paint]) -> Sequence[Paint]:
    """Per site, in which precision it reads: sums that are stored in bfloat16 add float32 values as they are.

    A GPU without bfloat16 arithmetic adds in float32 anyway, and XLA leaves out that the numbers are rounded before.
    """
    graph = view.graph
    if view.policy.low != "bfloat16" or not graph.is_compiled:
        return paints
    reads = list(paints)
    for tensor in graph.tensors:
        if paints[tensor.site] is Paint.FULL:
            for site in tensor.consumers:
                if graph.kinds[site] in view.traits.widens and graph.ops[graph.sites[site].op].compiled:
                    reads[site] = Paint.FULL
    return reads


def summary_of(view: PolicyView, paints: Sequence[Paint]) -> str:
    """What an assignment of paints comes to, in one line: arithmetic, bytes moved, and last the numbers of ops."""
    graph, low, effort = view.graph, view.policy.low, effort_of(view.prices, paints)
    ops = {site.op for site, paint in zip(graph.sites, paints, strict=True) if paint is Paint.LOW}
    casts = len(casts_of(graph, paints, reads_of(view, paints)))
    work = f"{effort.share} of the matrix arithmetic in {low}, " if effort.flops else ""
    moved = f"{effort.bytes / effort.float32_bytes:.2f} of the bytes of float32, " if effort.float32_bytes else ""
    return f"{work}{moved}{len(ops)} of {len(graph.ops)} float32 ops, {casts} casts"


def _demote(graph: Graph, demoted: Mapping[int, str], culprits: Mapping[int, str]) -> dict[int, str]:
    if again := sorted(demoted.keys() & culprits.keys()):
        site = again[0]
        raise PlanError(
            f"{graph.label(site)} cannot be planned: {culprits[site]}, also after it was made to stay full."
        )
    return {**demoted, **culprits}


def _plain(graph: Graph, stroke: Stroke) -> list[Any]:
    margin = [stroke.margin] if stroke.margin else []
    return [stroke.paint.value, stroke.stage, [graph.label(site) for site in stroke.because], *margin]

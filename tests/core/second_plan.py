"""What a plan makes of a graph, as a Graph again: the view a host would have if it read its own output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.core.strategies import sized

from mixdown.core import Cast, Graph, Op, Paint, Plan, Role, Site, Tensor

if TYPE_CHECKING:
    from collections.abc import Iterable


class _Repaint:
    """The parts of the new graph: full sites keep their place, low ones vanish, casts become ops."""

    def __init__(self, plan: Plan) -> None:
        self.plan, graph = plan, plan.graph
        full = [site for site, paint in enumerate(plan.paints) if paint is Paint.FULL]
        self.new = {old: number for number, old in enumerate(full)}
        self.sites = [graph.sites[old] for old in full]
        self.ops = [op._replace(sites=self.kept(op.sites)) for op in graph.ops]
        self.tensors = [self._tensor(tensor) for tensor in graph.tensors if tensor.site in self.new]

    def kept(self, sites: Iterable[int]) -> tuple[int, ...]:
        return tuple(self.new[site] for site in sites if site in self.new)

    def _tensor(self, tensor: Tensor) -> Tensor:
        return tensor._replace(site=self.new[tensor.site], consumers=self.kept(tensor.consumers))

    def add_cast(self, cast: Cast) -> None:
        tensor, site = self.plan.graph.tensors[cast.tensor], len(self.sites)
        name, down = f"{tensor.name}/cast", cast.to is Paint.LOW
        role = Role.PLAIN if down else Role.CONVERSION
        self.sites.append(Site(len(self.ops), "SrcT" if down else "DstT", legal=True, kernel=True, role=role))
        self.ops.append(Op(name, "Cast", "", (site,), position=len(self.ops)))
        consumers = () if down else self.kept(tensor.consumers)
        self.tensors.append(Tensor(name, self.new[tensor.site] if down else site, (site,) if down else consumers))


def painted(plan: Plan) -> Graph:
    """The graph after the rewrite: its float32 sites, and the inserted casts."""
    out = _Repaint(plan)
    for cast in plan.casts:
        out.add_cast(cast)
    ties = [tie._replace(sites=out.kept(tie.sites), followers=out.kept(tie.followers)) for tie in plan.graph.ties]
    flows = [out.kept(flow) for flow in plan.graph.flows]
    return sized(
        Graph(
            tuple(out.ops),
            tuple(out.sites),
            tuple(out.tensors),
            tuple(tie for tie in ties if tie.sites),
            tuple((flow[0], flow[1]) for flow in flows if len(flow) == 2),
        )
    )

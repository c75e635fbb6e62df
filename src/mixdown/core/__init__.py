"""The planner, free of any framework: a Graph and a Policy in, a Plan out. Start with `plan.make_plan`."""

from mixdown.core.graph import Agreement, Graph, Op, Role, Site, Tensor, Tie
from mixdown.core.paint import Cast, Paint, Stroke
from mixdown.core.plan import Plan, make_plan
from mixdown.core.policy import Level, Policy
from mixdown.rules import Category

__all__ = [
    "Agreement",
    "Cast",
    "Category",
    "Graph",
    "Level",
    "Op",
    "Paint",
    "Plan",
    "Policy",
    "Role",
    "Site",
    "Stroke",
    "Tensor",
    "Tie",
    "make_plan",
]

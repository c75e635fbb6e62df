"""The planner, free of any framework. In: a `Graph` that a host read, and a `Policy`; out: a `Plan` with its reasons.

The door is `make_plan`. It runs the stages of a strategy over the graph, checks the result against the laws, and counts
the casts. Nothing in here knows a host: op kinds and their traits come with the policy's rules.
"""

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

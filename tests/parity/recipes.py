"""Random graphs as recipes: plain data that hypothesis draws and shrinks, and `cook`, which builds the graph.

A recipe is a list of steps. A step names a phrase and one number, whose digits say which of the latest tensors
of the right form are read: zero is the newest, and a digit past the oldest makes a new leaf. So a recipe of
zeros is a chain, and shrinking goes there.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from tests.parity.canvas import BASE, Canvas
from tests.parity.control_flow import Branch, Loop, Say, write_branch, write_loop
from tests.parity.graph_builder import GraphBuilder
from tests.parity.vocabulary import GROUPS, Phrase

SHARES = {"allow": 20, "infer": 20, "clear": 20, "lists": 12, "unlisted": 6, "deny": 6, "casts": 6, "variables": 6}
LIST_SHARES = {**SHARES, "lists": 60}
CPU, GPU = "/device:CPU:0", "/job:localhost/replica:0/task:0/device:GPU:0"
# TensorFlow's pass changes these wherever they stand and even if they are fetched; we never touch such a node.
# So here they stand where they may be changed, and are not fetched directly.
NEVER_SPARED = ("NextIteration", "Cast")
CARRIED = ("matrix", "image", "list", "whole")  # what a loop variable may be

# The same graphs in every run: a failure here is a failure everywhere.
repeatable = settings(derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])


@dataclass(frozen=True)
class Recipe:
    """A whole random graph: steps, which tensors are fetched, node order and device pins."""

    steps: tuple[Say | Branch | Loop, ...]
    fetched: tuple[tuple[int, bool], ...]
    order: int
    pins: int


@dataclass(frozen=True)
class Dish:
    """A finished graph and its fetches."""

    graph_def: Any
    fetches: tuple[str, ...]


def cook(recipe: Recipe) -> Dish:
    """Build the graph of a recipe."""
    builder = GraphBuilder()
    canvas = Canvas(builder)
    for step in recipe.steps:
        match step:
            case Say(phrase, number):
                canvas.say(phrase, number)
            case Loop():
                write_loop(canvas, step)
            case Branch():
                write_branch(canvas, step)
    fetches = fetch(canvas, recipe.fetched)
    pin(builder.graph_def, recipe.pins)
    shuffle(builder.graph_def, recipe.order)
    return Dish(builder.graph_def, fetches)


def fetch(canvas: Canvas, fetched: tuple[tuple[int, bool], ...]) -> tuple[str, ...]:
    """Choose what is fetched: a tensor itself, which then keeps its type, or an Identity after it."""
    names = []
    for digit, directly in fetched:
        form = ("matrix", "image")[digit % 2]
        tensor = canvas.operand(form, digit // 2)
        itself = directly and not tensor.startswith(NEVER_SPARED)
        names.append(tensor if itself else canvas.builder.node("Identity", [tensor]))
    return tuple(dict.fromkeys(name if ":" in name else f"{name}:0" for name in names))


def pin(graph_def: Any, pins: int) -> None:
    """Place the nodes: 0 places none, 1 all on the CPU, others some there and a few on a GPU."""
    choices = {0: [""], 1: [CPU]}.get(pins, ["", "", CPU, CPU, GPU])
    dice = random.Random(pins)  # noqa: S311 - reproducible, not secret
    for node in graph_def.node:
        device = dice.choice(choices)
        node.device = CPU if node.op in NEVER_SPARED and device == GPU else device


def shuffle(graph_def: Any, order: int) -> None:
    """Reorder the nodes: 0 keeps the order of construction, 1 reverses it, others are random."""
    nodes = list(graph_def.node)
    if order == 1:
        nodes.reverse()
    elif order:
        random.Random(order).shuffle(nodes)  # noqa: S311 - reproducible, not secret
    del graph_def.node[:]
    graph_def.node.extend(nodes)


def balanced(shares: Mapping[str, int]) -> list[Phrase]:
    """List the phrases as often as they should come up: each group by its share."""
    return [
        phrase for name, share in shares.items() for phrase in GROUPS[name] * max(1, share * 4 // len(GROUPS[name]))
    ]


def recipes(longest: int = 30, shares: Mapping[str, int] = SHARES) -> st.SearchStrategy[Recipe]:
    """Draw recipes; about one step in five is a loop or a branch."""
    phrases = balanced(shares)
    say = st.builds(Say, st.sampled_from(phrases), st.integers(0, BASE**5 - 1))
    loop = st.builds(
        Loop,
        carried=st.lists(st.sampled_from(CARRIED), min_size=1, max_size=3).map(tuple),
        body=st.lists(say, max_size=8).map(tuple),
        number=st.integers(0, BASE**3 - 1),
        share=st.booleans(),
    )
    one_sided = [phrase for phrase in phrases if {*phrase.takes, *phrase.gives} == {"matrix"}]
    branch = st.builds(Branch, st.sampled_from([phrase for phrase in one_sided if len(phrase.gives) == 1]))
    step = st.integers(0, 9).flatmap(lambda die: [loop, branch][die % 2] if die > 7 else say)
    return st.builds(
        Recipe,
        steps=st.lists(step, min_size=6, max_size=longest).map(tuple),
        fetched=st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=3).map(tuple),
        order=st.integers(0, 9),
        pins=st.integers(0, 9),
    )

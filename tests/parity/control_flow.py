"""v1 control flow in random graphs: while loops (Enter, Merge, Switch, NextIteration, Exit) and conditionals."""

from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from tests.parity.canvas import BASE, Canvas, LoopBody
from tests.parity.graph_builder import GraphBuilder
from tests.parity.vocabulary import Phrase


@dataclass(frozen=True)
class Say:
    """Append one op."""

    phrase: Phrase
    number: int


@dataclass(frozen=True)
class Branch:
    """Send the newest matrix through a v1 conditional that has a phrase on one side only."""

    phrase: Phrase


@dataclass(frozen=True)
class Loop:
    """Append a v1 while loop: some loop variables, a body, and which body tensor goes round for each."""

    carried: tuple[str, ...]
    body: tuple[Say, ...]
    number: int
    share: bool  # let two loop variables of one form go round through one NextIteration


def write_loop(outside: Canvas, loop: Loop) -> None:
    """Write a counting loop in v1 form, with the loop's variables beside the counter."""
    builder, frame = outside.builder, f"frame_{len(outside.builder.graph_def.node)}"
    body = LoopBody(outside, frame)
    start, limit = (body.enter(builder.constant(value), is_constant=value > 0) for value in (0, 3))
    counter = merge(builder, start, f"{frame}/count")
    condition = builder.node("LoopCond", [builder.node("Less", [counter, limit])])
    count = builder.node("Switch", [counter, condition])
    pivot = builder.node("Identity", [f"{count}:1"])
    step = builder.constant(1, after=[pivot])
    builder.node("NextIteration", [builder.node("AddV2", [pivot, step])], name=f"{frame}/count")

    switches = []
    for index, form in enumerate(loop.carried):
        merged = merge(builder, body.enter(outside.operand(form, index), is_constant=False), f"{frame}/{index}")
        switches.append(builder.node("Switch", [merged, condition]))
        body.tensors[form].append(f"{switches[-1]}:1")
    body.after = [pivot]
    for said in loop.body:
        if "reference" not in said.phrase.takes:  # a reference cannot enter a loop
            body.say(said.phrase, said.number)
    close_loop(body, loop)
    for form, switch in zip(loop.carried, switches, strict=True):
        outside.tensors[form].append(builder.node("Exit", [switch]))


def merge(builder: GraphBuilder, entered: str, next_iteration: str) -> str:
    """Join the first round with the next, whose NextIteration is written later."""
    builder.dtypes[next_iteration] = builder.dtypes[entered]
    return builder.node("Merge", [entered, next_iteration])


def close_loop(body: LoopBody, loop: Loop) -> None:
    """Write the NextIterations, one a loop variable or one for all variables of a form."""
    number, shared = loop.number, dict[str, str]()
    for index, form in enumerate(loop.carried):
        number, digit = divmod(number, BASE)
        name = f"{body.frame}/{index}"
        if loop.share and form in shared:
            redirect(body.builder.graph_def, name, shared[form])
            continue
        going_round = body.tensors[form][-1 - digit % len(body.tensors[form])]
        shared[form] = body.builder.node("NextIteration", [going_round], name=name)


def redirect(graph_def: Any, old: str, new: str) -> None:
    """Make the Merge that waits for one NextIteration read another."""
    for node in graph_def.node:
        if node.op == "Merge" and node.input[1] == old:
            node.input[1] = new


def write_branch(canvas: Canvas, branch: Branch) -> None:
    """Write Switch, the phrase on the true side, and Merge."""
    builder = canvas.builder
    condition = builder.node("Placeholder", dtype=tf.bool, shape=tf.TensorShape(()))
    switch = builder.node("Switch", [canvas.operand("matrix", 0), condition])
    changed = builder.node(branch.phrase.kind, [f"{switch}:1"] * len(branch.phrase.takes), **branch.phrase.attributes)
    canvas.tensors["matrix"].append(builder.node("Merge", [switch, changed]))

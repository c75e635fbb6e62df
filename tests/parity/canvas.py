"""The tensors a random graph has so far, and how an op picks its inputs among them. Start at `Canvas.say`."""

from collections import defaultdict
from typing import Any

import numpy as np
import tensorflow as tf
from tests.parity.graph_builder import UNKNOWN, GraphBuilder
from tests.parity.vocabulary import CONSTANTS, DTYPES, SHAPES, Phrase

BASE = 4  # of the digits in a step's number
FLOAT_LEAVES = ("Placeholder", "Const", "ReadVariableOp", "VariableV2")
LIST_LEAVES = ("TensorListReserve", "EmptyTensorList", "EmptyTensorList", "Placeholder")


class Canvas:
    """The tensors made so far, by form, newest last; ops wait for the nodes in `after`."""

    def __init__(self, builder: GraphBuilder) -> None:
        self.builder = builder
        self.tensors: defaultdict[str, list[str]] = defaultdict(list)
        self.after: list[str] = []
        self.leaves = 0

    def say(self, phrase: Phrase, number: int) -> None:
        """Append the op of a phrase and remember what it gives."""
        inputs = []
        for form in phrase.takes:
            number, digit = divmod(number, BASE)
            inputs.append(self.operand(form, digit))
        name = self.builder.node(phrase.kind, inputs, after=self.after, **phrase.attributes)
        for index, form in enumerate(phrase.gives):
            if form != "_":
                self.tensors[form].append(f"{name}:{index}" if index else name)

    def operand(self, form: str, digit: int) -> str:
        """Choose a tensor of a form: the digit-th newest, or a new leaf if there are not so many."""
        if form in CONSTANTS:
            return self.builder.constant(CONSTANTS[form], after=self.after)
        known = self.tensors[form]
        if digit < len(known):
            return known[-1 - digit]
        known.insert(0, self.leaf(form))
        return known[0]

    def leaf(self, form: str) -> str:
        """Make a tensor from nothing, each time in another way."""
        self.leaves += 1
        if form == "list":
            return self._list_leaf(LIST_LEAVES[self.leaves % len(LIST_LEAVES)])
        if form in {"variable", "reference"}:
            kind = {"variable": "VarHandleOp", "reference": "VariableV2"}[form]
            return self.builder.node(kind, dtype=tf.float32, shape=tf.TensorShape(SHAPES["matrix"]))
        if DTYPES.get(form, tf.float32) != tf.float32:
            return self.builder.node("Placeholder", dtype=DTYPES[form], shape=tf.TensorShape(SHAPES[form]))
        return self._float_leaf(FLOAT_LEAVES[self.leaves % len(FLOAT_LEAVES)], SHAPES[form])

    def _float_leaf(self, kind: str, shape: tuple[int, ...]) -> str:
        declared: dict[str, Any] = {"dtype": tf.float32, "shape": tf.TensorShape(shape)}
        match kind:
            case "Const":
                return self.builder.constant(np.zeros(shape), tf.float32)
            case "ReadVariableOp":
                return self.builder.node(kind, [self.builder.node("VarHandleOp", **declared)], dtype=tf.float32)
            case "VariableV2":
                return self.builder.node("Identity", [self.builder.node(kind, **declared)])
        return self.builder.node(kind, **declared)

    def _list_leaf(self, kind: str) -> str:
        if kind == "Placeholder":
            return self.builder.node(kind, dtype=tf.variant, shape=UNKNOWN)
        inputs = [self.operand("@matrix", 0), self.operand("@1", 0)]
        return self.builder.node(kind, inputs, element_dtype=tf.float32)


class LoopBody(Canvas):
    """The tensors inside a loop; what comes from outside enters as a loop constant."""

    def __init__(self, outside: Canvas, frame: str) -> None:
        super().__init__(outside.builder)
        self.outside = outside
        self.frame = frame

    def operand(self, form: str, digit: int) -> str:
        """Prefer tensors of the body; a large digit reaches outside."""
        if form in CONSTANTS or digit < len(self.tensors[form]):
            return super().operand(form, digit)
        captured = self.outside.operand(form, digit - len(self.tensors[form]))
        entered = self.enter(captured, is_constant=True)
        self.tensors[form].insert(0, entered)
        return entered

    def enter(self, tensor: str, *, is_constant: bool) -> str:
        """Bring a tensor of the outside into the loop."""
        return self.builder.node("Enter", [tensor], frame_name=self.frame, is_constant=is_constant)

"""Small graphs written as strings: A allow, I infer, D deny, C clear, U unlisted; after planning, upper case is low.

`A` is MatMul with a variable, `I` Tanh, `D` Exp, `C` Relu, `U` Lgamma: one kind each is enough, since only the
category counts. Every chain is fetched through an Identity.
"""

from typing import Any

import tensorflow as tf
from tests.parity.graph_builder import GraphBuilder

KINDS = {"A": "MatMul", "I": "Tanh", "D": "Exp", "C": "Relu", "U": "Lgamma"}
SHAPE = tf.TensorShape([16, 16])
LOW = {tf.float16.as_datatype_enum, tf.bfloat16.as_datatype_enum}


class ChainBuilder(GraphBuilder):
    """A GraphBuilder that knows chains and remembers, in order, the nodes they are made of."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []

    def source(self) -> str:
        """Append a Placeholder for a matrix."""
        return self.node("Placeholder", dtype=tf.float32, shape=SHAPE)

    def weight(self) -> str:
        """Append a read of a resource variable."""
        return self.node("ReadVariableOp", [self.node("VarHandleOp", dtype=tf.float32, shape=SHAPE)], dtype=tf.float32)

    def chain(self, letters: str, tensor: str, frame: str = "") -> str:
        """Append one op a letter, each reading the one before, and return the last; inside a loop's frame if named."""
        for letter in letters.upper():
            inputs = [tensor, self._operand(frame)] if letter == "A" else [tensor]
            tensor = self.node(KINDS[letter], inputs)
            self.links.append(tensor)
        return tensor

    def _operand(self, frame: str) -> str:
        weight = self.weight()
        return self.node("Enter", [weight], frame_name=frame, is_constant=True) if frame else weight

    def loop(self, letters: str, tensor: str) -> str:
        """Append a v1 while loop that sends a tensor through a chain three times."""
        entered = self.node("Enter", [tensor], frame_name="loop")
        start = self.node("Enter", [self.constant(0)], frame_name="loop")
        limit = self.node("Enter", [self.constant(3)], frame_name="loop", is_constant=True)
        self.dtypes.update({"loop/count": tf.int32, "loop/value": tf.float32})
        counter = self.node("Merge", [start, "loop/count"])
        condition = self.node("LoopCond", [self.node("Less", [counter, limit])])
        count = f"{self.node('Switch', [counter, condition])}:1"
        self.node("NextIteration", [self.node("AddV2", [count, count])], name="loop/count")
        switch = self.node("Switch", [self.node("Merge", [entered, "loop/value"]), condition])
        self.node("NextIteration", [self.chain(letters, f"{switch}:1", "loop")], name="loop/value")
        return self.node("Exit", [switch])

    def fetch(self, tensor: str) -> tuple[str, ...]:
        """Append the Identity that is fetched."""
        return (f"{self.node('Identity', [tensor], name='fetched')}:0",)


def colours(rewritten: Any, links: list[str], letters: str) -> str:
    """Spell the chain with upper case for what is low in the rewritten graph."""
    low = {node.name for node in rewritten.node if node.attr["T"].type in LOW}
    return "".join(
        letter.upper() if link in low else letter.lower() for link, letter in zip(links, letters, strict=True)
    )


def casts(original: Any, rewritten: Any) -> int:
    """How many casts a rewrite inserted."""
    return len(rewritten.node) - len(original.node)

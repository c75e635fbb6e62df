"""Normalizations on one op of TensorFlow's own and its gradient: `BatchNormNodes` and `LayerNormNodes`."""

from collections.abc import Sequence
from math import prod
from typing import Any

from mixdown.tensorflow.fusing.batch_norms import BatchNorm
from mixdown.tensorflow.fusing.fused_nodes import FusedNodes
from mixdown.tensorflow.fusing.layer_norms import LayerNorm


class BatchNormNodes(FusedNodes):
    """Batch normalization is just that op, but for the variance."""

    norm: BatchNorm

    def write(self) -> tuple[str, str]:
        """Make the nodes; returns the names of the op and of the one that computes its gradients."""
        norm, match = self.norm, self.norm.match
        weights = [] if "scale" in match else [self.constant("no_scale", 1.0, shape=[norm.channels])]
        scale = match["scale"] if "scale" in match else self.output(weights[0])
        before, forward = self.forward(norm.name, [match["x"], scale, match["offset"]])
        backward = self.backward(norm.node("to_scaled"), forward, [match["dy"], match["x"], scale])
        self.placed = {norm.node("mean_kept"): [*weights, before, forward], backward.name: [backward]}
        values = {"y": self.output(forward), "mean": self.output(forward, 1)}
        values |= {"to_scale": self.output(backward, 1), "to_offset": self.output(backward, 2)}
        values["variance"] = self._corrected(self.output(forward, 2))
        self.read_instead(values, self.output(backward))
        return forward.name, backward.name

    def _corrected(self, unbiased: str) -> str:
        """The variance: the op divides squares by their number less one, and the layer by their number."""
        norm, name = self.norm, self.norm.node("variance")
        if norm.count:
            nodes = [self.constant("correction", (norm.count - 1) / norm.count)]
        else:
            count, one = norm.match["count_of_mean"], self.constant("one", 1.0)
            less = self.op(self.named("count_less_one"), "Sub", [count, self.output(one)])
            nodes = [one, less, self.op(self.named("correction"), "RealDiv", [self.output(less), count])]
        # A single number has no variance, whatever a device makes of 0 / 0.
        variance = self.op(name, "MulNoNan", [unbiased, self.output(nodes[-1])])
        self.placed[name] = [*nodes, variance]
        return self.output(variance)


class LayerNormNodes(FusedNodes):
    """Layer normalization is batch normalization whose channels are the rows, with scale and offset behind it."""

    norm: LayerNorm
    layout = b"NCHW"

    def write(self) -> tuple[str, str]:
        """Make the nodes; returns the names of the op and of the one that computes its gradients."""
        norm, match = self.norm, self.norm.match
        *sizes, width = norm.shape
        rows = prod(sizes)
        ones, zeros = self.constant("no_scale", 1.0, shape=[rows]), self.constant("no_offset", 0.0, shape=[rows])
        flat = self.reshaped("rows", match["x"], (1, rows, width, 1))
        inputs = [self.output(node) for node in (flat[-1], ones, zeros)]
        forward = self.forward(self.named("fused"), inputs)
        normalized = self.reshaped("normalized", self.output(forward[-1]), norm.shape)
        value = self.output(normalized[-1])
        scaled = self.op(norm.node("scaled"), "Mul", [value, match["scale'"]])
        y = self.op(norm.name, "AddV2", [self.output(scaled), match["offset'"]])
        self.placed = {
            norm.node("mean"): [ones, zeros, *flat, *forward, *normalized],
            scaled.name: [scaled],
            y.name: [y],
        }
        return forward[-1].name, self._write_gradients(forward[-1], inputs[:2], value)

    def _write_gradients(self, forward: Any, inputs: Sequence[str], normalized: str) -> str:
        norm, match = self.norm, self.norm.match
        to_normalized = self.op(norm.node("to_moved"), "Mul", [match["dy"], match["scale'"]])
        flat = self.reshaped("gradient_rows", self.output(to_normalized), (1, prod(norm.shape[:-1]), norm.shape[-1], 1))
        backward = self.backward(norm.node("products"), forward, [self.output(flat[-1]), *inputs])
        dx = self.reshaped("gradient", self.output(backward), norm.shape)
        to_scale = self.op(norm.node("to_scale"), "Mul", [match["dy"], normalized])
        self.placed |= {
            to_normalized.name: [to_normalized, *flat],
            backward.name: [backward, *dx],
            to_scale.name: [to_scale],
        }
        self.read_instead({}, self.output(dx[-1]))
        return str(backward.name)

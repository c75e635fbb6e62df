"""What `mixdown.numerics.locate` returns: the first op that made Inf or NaN of finite inputs. See `Location`."""

from dataclasses import dataclass
from re import escape

from mixdown.rules.layer_names import is_backward
from mixdown.untrusted.escaped import escaped


@dataclass(frozen=True)
class Range:
    """One tensor that the op read or made: its name, dtype and shape, and the range of its finite numbers."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    lowest: float | None  # None if it has no finite number
    highest: float | None
    infs: int = 0
    nans: int = 0

    def __str__(self) -> str:
        dtype = f"{self.dtype}[{', '.join(map(str, self.shape))}]"
        parts = [] if self.lowest is None else [f"from {self.lowest:.6g} to {self.highest:.6g}"]
        parts += [f"{count} {what}" for count, what in ((self.infs, "Inf"), (self.nans, "NaN")) if count]
        return f"{self.name} {dtype} {', '.join(parts)}".rstrip()


@dataclass(frozen=True)
class Location:
    """The first op whose output became Inf or NaN although its inputs were finite.

    Attributes:
        op: its name in the user's graph.
        kind: what it does, such as "MatMul".
        function: the user's function that it is in.
        dtype: the dtype that it computed in.
        inputs: what it read.
        outputs: what it made.
        layer: the scope that the op was made in, with Keras the path of its layer.
        source: the user's line that made the op, "" if the graph does not record it.
        float32: whether float32 would have overflowed too; None if that is not known.
        cast: the tensor whose cast to 16 bits overflowed, "" if it was the op itself.
        iteration: how often its function had run before in this step: the iteration, in a loop.
        came_in: no op made it: an argument, a variable or a constant held it already.
        others: further ops that made Inf or NaN of finite inputs, in order.
    """

    op: str
    kind: str
    function: str
    dtype: str
    inputs: tuple[Range, ...] = ()
    outputs: tuple[Range, ...] = ()
    layer: str = ""
    source: str = ""
    float32: bool | None = None
    cast: str = ""
    iteration: int = 0
    came_in: bool = False
    others: tuple[str, ...] = ()

    @property
    def backward(self) -> bool:
        """Whether the op is a part of the backward pass."""
        return is_backward(self.op)

    def __str__(self) -> str:
        lines = [self._headline()]
        lines += [f"  reads {each}" for each in self.inputs]
        lines += [f"  makes {each}" for each in self.outputs]
        lines += [f"  layer {self.layer}"] if self.layer else []
        lines += [f"  line  {self.source}"] if self.source else []
        lines += [] if self.came_in else [f"  {self._verdict()}"]
        lines += [f"  after it, from finite inputs too: {', '.join(self.others)}"] if self.others else []
        return "\n".join(map(escaped, lines))

    def _headline(self) -> str:
        where = "in the backward pass" if self.backward else "in the forward pass"
        again = f", in iteration {self.iteration}" if self.iteration else ""
        if self.came_in:
            return f"{self.op} ({self.kind}) is not finite to begin with: no op of this step made Inf or NaN."
        if self.cast:
            return f"{self.op} ({self.kind}) {where}{again} reads {self.cast}, which does not fit {self.dtype}."
        return f"{self.op} ({self.kind}) {where}{again} made Inf or NaN of finite inputs, in {self.dtype}."

    def _verdict(self) -> str:
        keep = f"policy.with_keep({self.kind!r}, name={f'^{escape(self.op)}$'!r})"
        match self.float32:
            case None:
                return f"Whether float32 would have overflowed too is not known; try {keep}."
            case True:
                return "float32 would have overflowed too: precision is not the cause, look at the values."
            case False:
                return f"float32 would not have overflowed: keep it in float32 with {keep}."

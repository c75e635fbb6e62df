"""The variables behind resource handles: the dtype and shape of their values, wherever TensorFlow notes them.

`handles_of_inputs` finds them among tensors, `handles_of_arguments` in a saved function, and `handles_in_tree` in all
functions that are called with them.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from mixdown.tensorflow.protos import bodies
from mixdown.tensorflow.protos.bodies import Body
from mixdown.tensorflow.protos.wiring import WiredBody
from mixdown.tensorflow.runtime.private import EagerTensor, get_resource_handle_data


class Handle(NamedTuple):
    """The value of a variable."""

    dtype: int
    shape: Any  # a TensorShapeProto


Handles = dict[int, Handle]
"""The variables among the arguments of a function, by position."""


def handles_of_inputs(tensors: Sequence[Any]) -> Handles:
    """The variables among the eager inputs of a call, or among the placeholders of a traced function."""
    resources = [(position, tensor) for position, tensor in enumerate(tensors) if tensor.dtype == tf.resource]
    noted = ((position, _handle_data(tensor)) for position, tensor in resources)
    return {position: _handle(data.shape_and_type) for position, data in noted if data and data.shape_and_type}


def _handle_data(tensor: Any) -> Any:
    data = tensor._handle_data if isinstance(tensor, EagerTensor) else get_resource_handle_data(tensor)
    return data if data is not None and data.is_set else None


def handles_of_arguments(body: Body) -> Handles:
    """The variables among the arguments of a function that was saved with what is known of them."""
    arguments = enumerate(body.proto.signature.input_arg if body.function else ())
    return {position: _handle(argument.handle_data) for position, argument in arguments if argument.handle_data}


def _handle(noted: Sequence[Any]) -> Handle:
    return Handle(noted[0].dtype, noted[0].shape)


def handles_in_tree(
    tree: Sequence[WiredBody], library: Mapping[str, Any], outermost: Mapping[int, Handle]
) -> list[Handles]:
    """Per body, the variables among its arguments: those of the outermost body, passed on from call to call."""
    number = {wired.body.function: index for index, wired in enumerate(tree)}
    found: list[Handles] = [dict(outermost), *({} for _ in tree[1:])]
    queue, seen = [0], {0}
    for index in queue:
        wired = tree[index]
        for position, names in bodies.calls(wired.body.nodes, library):
            skip = 1 if wired.body.nodes[position].op in bodies.PREDICATED else 0
            makers = [maker for maker, _ in wired.inputs[position][skip:]]
            passed = {
                i: handle for i, maker in enumerate(makers) if (handle := variable_behind(wired, maker, found[index]))
            }
            for callee in (number[name] for name in names):
                found[callee] = {**passed, **found[callee]}
                queue.extend({callee} - seen)
                seen.add(callee)
    return found


def variable_behind(wired: WiredBody, maker: int, arguments: Mapping[int, Handle]) -> Handle | None:
    """The variable whose handle a node makes, or an argument is; None if that is not known."""
    if maker < 0:
        return arguments.get(-1 - maker)
    node = wired.body.nodes[maker]
    return Handle(node.attr["dtype"].type, node.attr["shape"].shape) if node.op == "VarHandleOp" else None

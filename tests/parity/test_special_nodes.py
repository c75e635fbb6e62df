"""Nodes with rules of their own: tensor lists, batch norms, v1 variables, existing casts, list attributes."""

from collections.abc import Callable

import pytest
import tensorflow as tf
from benchmarks.oracle import theirs
from benchmarks.rewrite_difference import differences
from tests.parity.chains import LOW, SHAPE, ChainBuilder, colours
from tests.parity.laws import imported
from tests.parity.policies import LOWS, like_tensorflow

from mixdown import rewrite_graph_def

IMAGE = tf.TensorShape([4, 4, 4, 4])
CHANNEL = tf.TensorShape([4])
Case = Callable[[ChainBuilder], str]
CASES: list[tuple[Case, str]] = []


def low_kinds(expected: str) -> Callable[[Case], Case]:
    """Register a case: a function that builds a graph, and the kinds of all nodes that become low in it."""

    def register(case: Case) -> Case:
        CASES.append((case, expected))
        return case

    return register


def push(builder: ChainBuilder, handle: str, tensor: str) -> str:
    return builder.node("TensorListPushBack", [handle, tensor])


def pop(builder: ChainBuilder, handle: str) -> str:
    popped = builder.node("TensorListPopBack", [handle, builder.constant([16, 16])], element_dtype=tf.float32)
    return f"{popped}:1"


def empty_list(builder: ChainBuilder) -> str:
    inputs = [builder.constant([16, 16]), builder.constant(2)]
    return builder.node("EmptyTensorList", inputs, element_dtype=tf.float32)


@low_kinds("EmptyTensorList MatMul MatMul Tanh TensorListPopBack TensorListPushBack TensorListPushBack")
def a_list_written_by_allow_is_low_with_all_its_writers(builder: ChainBuilder) -> str:
    handle = push(builder, empty_list(builder), builder.chain("A", builder.source()))
    return builder.chain("IA", pop(builder, push(builder, handle, builder.source())))


@low_kinds("MatMul")
def a_list_written_by_deny_stays_full_and_taints_its_readers(builder: ChainBuilder) -> str:
    handle = push(builder, empty_list(builder), builder.chain("D", builder.source()))
    return builder.chain("IA", pop(builder, handle))


@low_kinds("MatMul MatMul")
def a_list_from_outside_stays_full(builder: ChainBuilder) -> str:
    handle = builder.node("Placeholder", dtype=tf.variant, shape=tf.TensorShape([]))
    return builder.chain("IA", pop(builder, push(builder, handle, builder.chain("A", builder.source()))))


@low_kinds("MatMul MatMul Relu TensorListGetItem TensorListReserve TensorListSetItem")
def of_two_lists_only_the_one_allow_writes_to_is_low(builder: ChainBuilder) -> str:
    tensors = []
    for letters in ("A", ""):
        sizes = [builder.constant([16, 16]), builder.constant(2)]
        handle = builder.node("TensorListReserve", sizes, element_dtype=tf.float32)
        item = builder.chain(letters, builder.source())
        handle = builder.node("TensorListSetItem", [handle, builder.constant(0), item])
        reads = [handle, builder.constant(0), builder.constant([16, 16])]
        tensors.append(builder.node("TensorListGetItem", reads, element_dtype=tf.float32))
    builder.node("Lgamma", [tensors[1]])
    return builder.chain("CA", tensors[0])


@low_kinds("MatMul MatMul Pack TensorListFromTensor TensorListStack Unpack")
def a_list_made_from_a_tensor_follows_it(builder: ChainBuilder) -> str:
    packed = builder.node("Pack", [builder.chain("A", builder.source())] * 2)
    handle = builder.node("TensorListFromTensor", [packed, builder.constant([16, 16])])
    stacked = builder.node("TensorListStack", [handle, builder.constant([16, 16])], element_dtype=tf.float32)
    return builder.chain("A", builder.node("Unpack", [stacked], num=2))


@low_kinds("MatMul Relu")
def a_list_from_outside_takes_no_taint_and_passes_none_on(builder: ChainBuilder) -> str:
    handle = builder.node("Placeholder", dtype=tf.variant, shape=tf.TensorShape([]))
    tensor = builder.chain("C", pop(builder, push(builder, handle, builder.chain("D", builder.source()))))
    builder.chain("I", tensor)
    return builder.chain("A", tensor)


@low_kinds("Add MatMul")
def a_list_that_lies_on_another_device_denies_nothing(builder: ChainBuilder) -> str:
    handle = builder.node("Placeholder", dtype=tf.variant, shape=tf.TensorShape([]))
    tensor = pop(builder, handle)
    elsewhere(builder, tensor)
    return builder.node("Add", [tensor, builder.chain("A", builder.source())])


@low_kinds("EmptyTensorList MatMul TensorListPopBack TensorListPushBack")
def what_is_written_to_a_list_does_not_flow_through_a_handle_on_another_device(builder: ChainBuilder) -> str:
    handle = push(builder, empty_list(builder), builder.chain("A", builder.source()))
    carried = builder.node("Identity", [handle])
    elsewhere(builder, carried)
    return builder.chain("C", pop(builder, carried))


def elsewhere(builder: ChainBuilder, tensor: str) -> None:
    """Put a node on a device that the policy does not admit."""
    next(node for node in builder.graph_def.node if node.name == tensor.partition(":")[0]).device = "/device:GPU:0"


@low_kinds("MatMul MatMul")
def a_list_with_one_tainted_reader_stays_full_before_anything_is_bridged_over_it(builder: ChainBuilder) -> str:
    handle = push(builder, empty_list(builder), builder.chain("A", builder.source()))
    between = builder.chain("I", pop(builder, handle))
    builder.chain("I", pop(builder, push(builder, handle, builder.chain("D", builder.source()))))
    return builder.chain("A", between)


@low_kinds("Enter Enter MatMul Switch")
def loop_variables_that_go_round_together_stay_full_if_one_is_tainted(builder: ChainBuilder) -> str:
    tainted = builder.node("Enter", [builder.chain("D", builder.source())], frame_name="loop")
    plain = builder.node("Enter", [builder.source()], frame_name="loop")
    builder.dtypes["round"] = tf.float32
    condition = builder.node("LoopCond", [builder.node("Placeholder", dtype=tf.bool, shape=tf.TensorShape([]))])
    merges = [builder.node("Merge", [entered, "round"]) for entered in (tainted, plain)]
    switches = [builder.node("Switch", [merge, condition]) for merge in merges]
    builder.chain("I", f"{switches[0]}:1")
    builder.node("NextIteration", [builder.chain("A", f"{switches[1]}:1", "loop")], name="round")
    return builder.node("Lgamma", [builder.node("Exit", [switches[0]])])


@low_kinds("Conv2D Conv2D FusedBatchNormV2")
def an_old_batch_norm_is_upgraded_and_keeps_its_statistics_full(builder: ChainBuilder) -> str:
    return between_convolutions(builder, "FusedBatchNorm")


@low_kinds("Conv2D Conv2D FusedBatchNormV3")
def a_new_batch_norm_keeps_its_statistics_full(builder: ChainBuilder) -> str:
    return between_convolutions(builder, "FusedBatchNormV3")


def between_convolutions(builder: ChainBuilder, kind: str) -> str:
    image = convolution(builder, builder.node("Placeholder", dtype=tf.float32, shape=IMAGE))
    statistics = [builder.node("Placeholder", dtype=tf.float32, shape=CHANNEL) for _ in range(4)]
    image = convolution(builder, builder.node(kind, [image, *statistics]))
    return builder.node("Reshape", [builder.node("Lgamma", [image]), builder.constant([16, 16])])


def convolution(builder: ChainBuilder, image: str) -> str:
    weight = builder.node("Placeholder", dtype=tf.float32, shape=IMAGE)
    return builder.node("Conv2D", [image, weight], strides=[1, 1, 1, 1], padding="SAME")


@low_kinds("Identity MatMul")
def an_identity_after_a_v1_variable_stays_full_but_one_after_a_constant_does_not(builder: ChainBuilder) -> str:
    variable = builder.node("VariableV2", dtype=tf.float32, shape=SHAPE)
    constant = builder.constant([[1.0] * 16] * 16, tf.float32)
    return builder.node("MatMul", [builder.node("Identity", [variable]), builder.node("Identity", [constant])])


@low_kinds("AddN IdentityN MatMul MatMul MatMul MatMul")
def list_attributes_and_repeated_inputs_are_low_in_every_place(builder: ChainBuilder) -> str:
    sources = [builder.chain("A", builder.source()) for _ in range(3)]
    passed = builder.node("IdentityN", sources)
    return builder.chain("A", builder.node("AddN", [passed, f"{passed}:1", f"{passed}:2"]))


@low_kinds("Cast MatMul")
def a_cast_to_float_that_only_allow_reads_is_made_low(builder: ChainBuilder) -> str:
    flags = builder.node("Placeholder", dtype=tf.bool, shape=SHAPE)
    return builder.chain("A", builder.node("Cast", [flags], DstT=tf.float32))


@low_kinds("MatMul")
def a_cast_to_float_with_another_reader_stays(builder: ChainBuilder) -> str:
    tensor = builder.node("Cast", [builder.node("Placeholder", dtype=tf.int32, shape=SHAPE)], DstT=tf.float32)
    builder.node("Lgamma", [tensor])
    return builder.chain("A", tensor)


@low_kinds("MatMul Relu Relu ShapeN")
def clear_spreads_to_a_sibling_through_a_common_clear_op(builder: ChainBuilder) -> str:
    left, right = builder.chain("C", builder.source()), builder.chain("C", builder.source())
    builder.node("ShapeN", [left, right])
    builder.node("Lgamma", [right])
    return builder.chain("A", left)


@low_kinds("Add MatMul")
def infer_after_allow_pulls_a_cast_onto_its_other_input(builder: ChainBuilder) -> str:
    return builder.node("Add", [builder.chain("A", builder.source()), builder.chain("U", builder.source())])


@low_kinds("BiasAdd Conv2D Relu")
def convolution_bias_and_relu_are_low_together(builder: ChainBuilder) -> str:
    image = convolution(builder, builder.node("Placeholder", dtype=tf.float32, shape=IMAGE))
    bias = builder.node("Placeholder", dtype=tf.float32, shape=CHANNEL)
    relu = builder.node("Relu", [builder.node("BiasAdd", [image, bias])])
    return builder.node("Lgamma", [relu])


@pytest.mark.parametrize("low", LOWS)
@pytest.mark.parametrize(("case", "expected"), CASES, ids=[case.__name__ for case, _ in CASES])
def test_low_kinds_are_as_known_and_as_tensorflows(case: Case, expected: str, low: str) -> None:
    builder = ChainBuilder()
    fetches = builder.fetch(case(builder))
    imported(builder.graph_def)
    ours = rewrite_graph_def(builder.graph_def, fetches, policy=like_tensorflow(low)).graph_def
    assert differences(builder.graph_def, ours, theirs(builder.graph_def, fetches, low)) == []
    before = {node.name for node in builder.graph_def.node}
    found = [node.op for node in ours.node if node.name in before and is_low(node)]
    assert " ".join(sorted(found)) == expected
    assert {node.attr["U"].type for node in ours.node if "BatchNorm" in node.op} <= {tf.float32.as_datatype_enum}


def test_an_allow_op_without_a_low_type_stays_full_but_its_neighbours_do_not() -> None:
    builder = ChainBuilder()
    gates, candidate = (builder.node("Placeholder", dtype=tf.float32, shape=tf.TensorShape([32, n])) for n in (32, 16))
    biases = [builder.node("Placeholder", dtype=tf.float32, shape=tf.TensorShape([n])) for n in (32, 16)]
    inputs = [builder.chain("C", builder.source()), builder.source(), gates, candidate, *biases]
    fetches = builder.fetch(builder.node("GRUBlockCell", inputs))  # on the float16 allow list, but float32 only
    imported(builder.graph_def)
    ours = rewrite_graph_def(builder.graph_def, fetches, policy=like_tensorflow("float16")).graph_def
    assert differences(builder.graph_def, ours, theirs(builder.graph_def, fetches, "float16")) == []
    assert colours(ours, builder.links, "C") == "C"


@pytest.mark.parametrize("low", LOWS)
def test_fetched_ops_keep_their_types(low: str) -> None:
    builder = ChainBuilder()
    builder.chain("CACAC", builder.source())
    fetches = tuple(f"{link}:0" for link in (builder.links[0], builder.links[3], builder.links[4]))
    ours = rewrite_graph_def(builder.graph_def, fetches, policy=like_tensorflow(low)).graph_def
    assert colours(ours, builder.links, "CACAC") == "cACac"
    assert differences(builder.graph_def, ours, theirs(builder.graph_def, fetches, low)) == []


@pytest.mark.parametrize("low", LOWS)
def test_ops_on_another_device_keep_their_types(low: str) -> None:
    builder = ChainBuilder()
    fetches = builder.fetch(builder.chain("ACACA", builder.source()))
    for link in builder.links[1:3]:
        elsewhere(builder, link)
    ours = rewrite_graph_def(builder.graph_def, fetches, policy=like_tensorflow(low)).graph_def
    assert colours(ours, builder.links, "ACACA") == "AcaCA"
    assert differences(builder.graph_def, ours, theirs(builder.graph_def, fetches, low)) == []


def is_low(node: object) -> bool:
    values = node.attr.values()  # type: ignore[attr-defined] # a NodeDef
    return any(value.type in LOW or LOW & set(value.list.type) for value in values)

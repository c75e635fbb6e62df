"""What decides whether a compiler stores a value: the time of kernels, masks, views, copies and softmax."""

from tests.core.pricing.test_fused import N, planned, prices

from mixdown.core.pricing import FusedPrices
from mixdown.core.pricing.kernel_graph import BEHIND_VIEW, FAR
from mixdown.core.pricing.kernel_time import START, FusedReader, times


def test_a_small_value_is_computed_anew_because_a_kernel_takes_time_to_start() -> None:
    small, large = (
        times(30.0 * size, 2 * size, 2 * size, [FusedReader(0.0, 2 * size, 2 * size)] * 2) for size in (1000, 10**6)
    )
    assert small[0] > small[1]
    assert large[0] < large[1]
    assert small[1] < START


def test_what_selects_reads_a_mask_in_every_kernel() -> None:
    lines = ("a = MatMul(x, w)", "s = {}(a)", "b = MatMul(y, w)", "p = Mul(s, b)", "c = MatMul(p, w)")
    more = ("q = Add(s, b)", "d = MatMul(q, w)")
    masked, plain = (
        prices(planned(*(line.format(kind) for line in (*lines, *more))), "s") for kind in ("SelectV2", "Relu")
    )
    assert masked[0] == plain[0] + 2  # one byte of a mask in each of two kernels


def test_behind_a_softmax_all_readers_are_better_rounded_together() -> None:
    plan = planned("a = MatMul(x, w)", "s = Softmax(a)", "m = Mul(s, k)", "b = MatMul(m, w)")
    (index,) = (i for i, tensor in enumerate(plan.graph.tensors) if tensor.name.partition(".")[0] == "s")
    found = [bond.price for bond in plan.view.prices.bonds(index) if bond.as_if_low]
    assert found == [2 * N * 2]  # written and read once, two bytes less


def test_views_hide_what_kernels_share() -> None:
    plan = planned("a = MatMul(x, w)", "v = Transpose(a)", "r = Relu(v)", "b = MatMul(r, w)")
    fusion = plan.view.prices
    assert isinstance(fusion, FusedPrices)
    sites = {op.name: op.sites[0] for op in plan.graph.ops}
    marks = fusion.fusion.marks
    assert marks[sites["v"]] == {BEHIND_VIEW}
    assert not marks[sites["r"]]
    assert FAR != BEHIND_VIEW


def test_a_16_bit_reader_reads_the_copy_that_a_library_call_is_given() -> None:
    lines = (
        "a = MatMul(x, w)",
        "r = Relu(a)",
        "c = MatMul(r, w)",
        "g = ReluGrad(c, r)",
        "p = Mul(g, a)",
        "q = Add(g, a)",
    )
    low, full = prices(planned(*lines, "d = MatMul(p, w)", "e = MatMul(q, w)"), "g")
    assert low == full + 2 * 2  # in float32 two kernels compute r from a, which they read anyway

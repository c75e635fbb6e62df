"""Measured machines: interpolation, families, the way to JSON and back, and what a plan makes of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.strategies import graphs

from mixdown.core import Graph, Policy, make_plan
from mixdown.core.clock import Kernel
from mixdown.core.pricing.measured import DOUBT, LEAST_GAIN, Measured, interpolated, wanted
from mixdown.errors import MeasurementError
from mixdown.rules.tensorflow_traits import TRAITS

SAMPLES = ((10, 1.0), (20, 3.0), (40, 4.0))


def machine(**low: float) -> Measured:
    """A machine on which an element takes a nanosecond, and in 16 bits the part of it given for the family."""
    times = {
        (one, mode, dtype): 1e-9 * (low.get(one.replace(" ", "_"), 1.0) if dtype != "float32" else 1.0)
        for one, mode, dtype in wanted()
    }
    return Measured("M1", {key: ((1, seconds),) for key, seconds in times.items()})


@pytest.mark.parametrize(
    ("amount", "seconds"), [(1, 1.0), (10, 1.0), (15, 2.0), (20, 3.0), (30, 3.5), (40, 4.0), (80, 8.0)]
)
def test_times_between_samples_are_interpolated_and_beyond_them_grow_in_proportion(amount: int, seconds: float) -> None:
    assert interpolated(SAMPLES, amount) == seconds


@given(st.lists(st.tuples(st.integers(1, 10**9), st.floats(1e-9, 1e3)), min_size=1, unique_by=lambda s: s[0]))
def test_interpolation_meets_every_sample(samples: list[tuple[int, float]]) -> None:
    ordered = tuple(sorted(samples))
    assert [interpolated(ordered, amount) for amount, _ in ordered] == pytest.approx([its for _, its in ordered])


@pytest.mark.parametrize(
    ("kind", "operations", "its"),
    [
        ("MatMul", 1, "product"),
        ("Einsum", 1, "product"),
        ("Conv2D", 1, "convolution"),
        ("DepthwiseConv2dNative", 1, "convolution"),
        ("Conv2DBackpropFilter", 1, "convolution gradient"),
        ("Relu", 0, "elementwise"),
        ("Sum", 0, "reduction"),
        ("GatherV2", 0, "lookup"),
        ("FusedBatchNormGradV3", 0, "normalization"),
        ("MaxPoolGrad", 0, "pooling"),
        ("MatMul", 0, ""),
    ],
)
def test_every_op_has_the_family_that_was_timed_for_it(kind: str, operations: int, its: str) -> None:
    assert TRAITS.family(kind, operations) == its


def test_an_op_of_no_family_is_doubted() -> None:
    found, kernel = machine(elementwise=0.1), Kernel("", 0, 100)
    assert found.time(kernel, "float32") == pytest.approx(100e-9)
    assert found.time(kernel, "float16") == pytest.approx(DOUBT * 100e-9)


def test_compiled_ops_and_casts_have_times_of_their_own() -> None:
    found = machine()
    samples = {key: ((1, its[0][1] * (2 if key[1] == "jit" else 1)),) for key, its in found.samples.items()}
    twice = Measured("M2", samples)
    assert twice.time(Kernel("elementwise", 0, 8, compiled=True), "float16") == pytest.approx(16e-9)
    assert twice.time(Kernel("elementwise", 0, 8), "float16") == pytest.approx(8e-9)
    assert twice.cast_time(8, compiled=True) == pytest.approx(16e-9)
    assert twice.cast_time(0, compiled=False) == 0


def test_what_is_slower_is_told_by_family_and_mode() -> None:
    assert machine(reduction=1.1, product=0.9).slower("bfloat16") == [("reduction", "graph"), ("reduction", "jit")]


def test_a_measurement_survives_json() -> None:
    assert Measured.from_dict(machine(product=0.5).to_dict()) == machine(product=0.5)


def without(key: tuple[str, str, str]) -> dict[str, Any]:
    """A stored measurement that lacks something."""
    data = machine().to_dict()
    return {**data, "samples": [row for row in data["samples"] if tuple(row[:3]) != key]}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "This is no measurement: TypeError"),
        ({"name": "M1"}, "This is no measurement: KeyError('samples')"),
        ({"name": "M1", "samples": [["product"]]}, "This is no measurement: ValueError"),
        ({"name": "M1", "samples": [["product", "jit", "float16", [[0, 1]]]]}, "amounts must be positive, each once"),
        ({"name": "M1", "samples": [["product", "jit", "float16", [[1, 1], [1, 2]]]]}, "positive, each once"),
        ({"name": "M1", "samples": [["product", "jit", "float16", []]]}, "amounts must be positive, each once"),
        ({"name": "M1", "samples": [["product", "jit", "float16", [[float("inf"), 1]]]]}, "OverflowError"),
        ({"name": "M1", "samples": [["product", "jit", "float16", [[1, -1]]]]}, "seconds must be positive"),
        ({"name": "M1", "samples": [["product", "jit", "float16", [[1, float("inf")]]]]}, "seconds must be positive"),
        (without(("lookup", "jit", "bfloat16")), "The measurement lacks lookup jit bfloat16."),
    ],
)
def test_a_broken_measurement_is_refused(data: Any, message: str) -> None:
    with pytest.raises(MeasurementError) as caught:
        Measured.from_dict(data)
    assert message in str(caught.value)


@given(graphs(), st.sampled_from([0.2, 0.9, 1.0, 3.0]), st.sampled_from([0.2, 1.0, 3.0]), st.integers(0, 10**5))
def test_a_plan_by_measurement_gains_enough_or_changes_nothing(
    graph: Graph, product: float, elementwise: float, work: int
) -> None:
    its = machine(product=product, elementwise=elementwise)
    worked = tuple(work if op.kind == "MatMul" else 0 for op in graph.ops)
    here = Graph(graph.ops, graph.sites, graph.tensors, graph.ties, graph.flows, graph.shapes, worked, its)
    plan = make_plan(here, Policy(devices="measured"))
    found = plan.predicted(its)
    assert found.mixed <= (1 - LEAST_GAIN) * found.float32 or not plan.changes_anything
    assert "from the measurement of M1" in str(found)
    if not plan.changes_anything:
        assert plan.idle_reason == "it would not gain enough by float16, predicted from the measurement of M1"

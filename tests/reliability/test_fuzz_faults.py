"""The laws themselves: faults put into the rewrite on purpose are found, each by the law it breaks."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.reliability.conftest import Tally
from tests.reliability.fuzz_draws import Setting
from tests.reliability.fuzz_functions import check_function
from tests.reliability.fuzz_programs import Program, Read, Say
from tests.reliability.fuzz_sessions import SessionSetting, check_session

import mixdown
from mixdown.core import Policy, make_plan
from mixdown.tensorflow.calls import active_policy
from mixdown.tensorflow.sessions import twin
from mixdown.tensorflow.sessions.graph import write
from mixdown.tensorflow.writing import function_family
from mixdown.tensorflow.writing.apply import apply

POLICY = Policy(devices="all")
PROGRAM = Program((Read(), Say("square matmul", 1), Say("sin rows"), Say("conv"), Say("texts")))


def swap_operands(nodes: Any) -> None:
    """Exchange the inputs of every product of two matrices."""
    for node in nodes:
        if node.op == "MatMul":
            node.input[:2] = [node.input[1], node.input[0]]


def swapped_in_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    def swapped(*arguments: Any) -> Any:
        root, twins = apply(*arguments)
        swap_operands(root.node_def)
        return root, twins

    monkeypatch.setattr(function_family, "apply", swapped)


def swapped_in_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    def swapped(*arguments: Any) -> Any:
        nodes, layout = write(*arguments)
        swap_operands(nodes)
        return nodes, layout

    monkeypatch.setattr(twin, "write", swapped)


def more_is_low_than_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    def lavish(reading: Any, plan: Any, *rest: Any) -> Any:
        return apply(reading, make_plan(plan.graph, plan.policy.with_allow("Sin")), *rest)

    monkeypatch.setattr(function_family, "apply", lavish)


def the_scope_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def endless(policy: Policy | None) -> Iterator[None]:
        monkeypatch.setattr(active_policy, "_process", active_policy.twins_for(policy) if policy else None)
        yield

    monkeypatch.setattr(active_policy, "scope", endless)


@pytest.mark.parametrize(
    ("fault", "law"),
    [
        (swapped_in_functions, "is off by"),
        (more_is_low_than_planned, "is off by"),
        (the_scope_never_ends, "float32 is not what it was before"),
    ],
)
def test_a_fault_in_functions_is_found(
    fault: Callable[[pytest.MonkeyPatch], None], law: str, monkeypatch: pytest.MonkeyPatch, tally: Tally
) -> None:
    setting = Setting(seed=5)
    check_function(PROGRAM, setting, POLICY)
    fault(monkeypatch)
    with pytest.raises(AssertionError, match=law):
        check_function(PROGRAM, setting, POLICY)
    tally("faults injected")


def test_a_fault_in_sessions_is_found(monkeypatch: pytest.MonkeyPatch, tally: Tally) -> None:
    setting = SessionSetting(seed=5, derived=True)
    check_session(PROGRAM, setting, POLICY)
    swapped_in_sessions(monkeypatch)
    with pytest.raises(AssertionError, match="is off by"):
        check_session(PROGRAM, setting, POLICY)
    tally("faults injected")


def test_a_program_that_mixed_precision_cannot_take_is_found(monkeypatch: pytest.MonkeyPatch, tally: Tally) -> None:
    def broken(*_arguments: Any) -> Any:
        raise mixdown.GraphError("a fault")

    monkeypatch.setattr(function_family, "apply", broken)
    with pytest.raises(mixdown.MixdownWarning, match="runs in float32: a fault"):
        check_function(PROGRAM, Setting(), POLICY)
    tally("faults injected")

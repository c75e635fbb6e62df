"""Functions by name: references, order, groups and free names."""

from typing import Any

import pytest
from tensorflow.core.framework.function_pb2 import FunctionDef

import mixdown
from mixdown.tensorflow.protos import library
from mixdown.tensorflow.protos.bodies import GROUP


def function(name: str, *called: str, group: str = "", partner: str = "") -> Any:
    """A function with a call of each of these: of the first by its op, of the others by attributes."""
    made = FunctionDef()
    made.signature.name = name
    for index, callee in enumerate(called):
        node = made.node_def.add(name=f"call_{index}", op="PartitionedCall" if index else callee)
        if index == 1:
            node.attr["f"].func.name = callee
        elif index:
            node.attr["branches"].list.func.add(name=callee)
    if group:
        made.attr[GROUP].s = group.encode()
    if partner:
        made.attr["backward_function_name"].s = partner.encode()
    return made


def functions(*made: Any) -> dict[str, Any]:
    return {each.signature.name: each for each in made}


def test_references_are_found_and_renamed_in_ops_attributes_and_lists() -> None:
    caller = function("f", "a", "b", "c")
    assert library.mentioned(caller.node_def) == {"a", "b", "c", "PartitionedCall"}
    library.rename_calls(caller.node_def, {"a": "A", "b": "B", "c": "C"})
    assert library.mentioned(caller.node_def) == {"A", "B", "C", "PartitionedCall"}


def test_callees_come_before_their_callers() -> None:
    known = functions(function("a", "b", "c"), function("b", "c"), function("c"), function("other"))
    order = library.callees_first(known)
    assert sorted(order) == sorted(known)
    assert order.index("c") < order.index("b") < order.index("a")


def test_a_circle_is_refused_by_name() -> None:
    with pytest.raises(mixdown.GraphError, match="call each other in a circle: f -> g -> f"):
        library.callees_first(functions(function("f", "g"), function("g", "f")))


def test_what_is_referenced_is_followed_to_the_end_and_through_circles() -> None:
    known = functions(function("a", "b"), function("b", "a", "c"), function("c", partner="d"), function("d"))
    assert library.referenced(["a", "unknown"], known) == {"a", "b", "c"}
    assert library.referenced(["a"], known, partners=True) == {"a", "b", "c", "d"}


def test_twins_get_groups_and_partners_of_their_own() -> None:
    known = functions(function("f", group="g", partner="h"), function("h", group="g"), function("other"))
    members = library.members(known, {b"g"}, {})
    assert members == ["f", "h"]
    twins = {"f": function("f_low", group="g", partner="h"), "h": function("h_low", group="g")}
    library.rename_groups([twins], "_low")
    assert [library.group_of(twin) for twin in twins.values()] == [b"g_low", b"g_low"]
    assert library.partners_of(twins["f"]) == {"backward_function_name": "h_low"}


def test_a_name_that_is_taken_gets_a_number() -> None:
    taken = {"a"}
    assert [library.unused("a", taken) for _ in range(3)] == ["a_1", "a_2", "a_3"]
    assert library.unused("b", taken) == "b"

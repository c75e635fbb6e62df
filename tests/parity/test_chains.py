"""Chains and loops whose colouring is known by heart: ours equals TensorFlow's, and both equal the table."""

from typing import Any

import pytest
from benchmarks.oracle import theirs
from benchmarks.rewrite_difference import differences
from tests.parity.chains import ChainBuilder, casts, colours
from tests.parity.laws import imported
from tests.parity.policies import LOWS, like_tensorflow

from mixdown import rewrite_graph_def

# Chain after planning (upper case is low), and the number of casts; weights of low MatMuls are cast as well.
CHAINS = [
    ("A", 3),  # allow is low, always
    ("dic", 0),  # nothing to do without allow
    ("diciCAI", 3),  # deny taints infer, and clear on the way to infer
    ("dCA", 3),  # clear that leads to nothing dangerous is not tainted
    ("dciA", 3),
    ("AIdiA", 6),
    ("AICIA", 4),  # between allow ops, infer and clear are low
    ("AuA", 6),  # an unlisted op is a barrier
    ("AId", 3),  # infer directly after allow is low
    ("ACid", 3),  # but clear in between stops that
    ("CCA", 3),  # clear follows its neighbour, upstream too
    ("iCA", 3),
    ("ACd", 3),
    ("ACAuCAC", 7),
    ("dciCACicuc", 3),
]
# Before the loop, in it, after it. A Merge and its NextIteration must agree; all else may differ.
LOOPS = [
    ("A", "C", "C"),
    ("C", "C", "A"),
    ("A", "I", "A"),
    ("A", "idi", "A"),
    ("d", "iAC", "c"),
    ("d", "CACI", "C"),
    ("C", "IACI", "C"),
    ("C", "CidiAC", "i"),
]


def rewrites(builder: ChainBuilder, fetches: tuple[str, ...], low: str) -> tuple[Any, Any]:
    imported(builder.graph_def)
    ours = rewrite_graph_def(builder.graph_def, fetches, policy=like_tensorflow(low)).graph_def
    return ours, theirs(builder.graph_def, fetches, low)


@pytest.mark.parametrize("low", LOWS)
@pytest.mark.parametrize(("expected", "cast_count"), CHAINS)
def test_a_chain_is_coloured_as_known(expected: str, cast_count: int, low: str) -> None:
    builder = ChainBuilder()
    fetches = builder.fetch(builder.chain(expected, builder.source()))
    ours, reference = rewrites(builder, fetches, low)
    assert colours(ours, builder.links, expected) == expected
    assert casts(builder.graph_def, ours) == cast_count
    assert differences(builder.graph_def, ours, reference) == []


@pytest.mark.parametrize("low", LOWS)
@pytest.mark.parametrize(("before", "body", "after"), LOOPS)
def test_a_loop_is_coloured_as_known(before: str, body: str, after: str, low: str) -> None:
    builder = ChainBuilder()
    through = builder.loop(body, builder.chain(before, builder.source()))
    fetches = builder.fetch(builder.chain(after, through))
    ours, reference = rewrites(builder, fetches, low)
    assert colours(ours, builder.links, before + body + after) == before + body + after
    assert differences(builder.graph_def, ours, reference) == []


@pytest.mark.parametrize(("reverse", "expected"), [(False, "AIII"), (True, "AIii")])
def test_infer_after_allow_depends_on_node_order_as_in_tensorflow(reverse: bool, expected: str) -> None:  # noqa: FBT001 - a column of the table
    builder = ChainBuilder()
    fetches = builder.fetch(builder.chain("AIII", builder.source()))
    if reverse:
        nodes = list(reversed(builder.graph_def.node))
        del builder.graph_def.node[:]
        builder.graph_def.node.extend(nodes)
    ours, reference = rewrites(builder, fetches, "float16")
    assert colours(ours, builder.links, expected) == expected
    assert differences(builder.graph_def, ours, reference) == []

"""Random v1 graphs written node by node, in sessions in mixed precision."""

import pytest
from hypothesis import strategies as st
from tests.parity.recipes import LIST_SHARES, recipes
from tests.reliability.conftest import Tally
from tests.reliability.fuzz_draws import policies
from tests.reliability.fuzz_graphs import check_graph, runnable
from tests.reliability.fuzz_runs import hunt

RECIPES = recipes(longest=20) | recipes(longest=20, shares=LIST_SHARES)
CASES = st.tuples(RECIPES.map(runnable), policies())


def test_a_graph_of_any_ops_keeps_its_surface_and_float32(tally: Tally) -> None:
    tally("fuzz sessions", hunt(check_graph, CASES, 60))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(400, 404))
def test_many_graphs_of_any_ops_keep_their_surface_and_float32(tally: Tally, part: int) -> None:
    tally("fuzz sessions", hunt(check_graph, CASES, 300, part))

"""Random functions with gradients in mixed precision: recorded inside the function, or outside of it."""

import pytest
from hypothesis import strategies as st
from tests.reliability.conftest import Tally
from tests.reliability.fuzz_draws import policies, programs, settings_of
from tests.reliability.fuzz_functions import check_function
from tests.reliability.fuzz_runs import hunt

CASES = st.tuples(programs(), settings_of(compiled=False, tapes=["inside", "outside"]), policies())


def test_gradients_keep_their_surface_their_bounds_and_float32(tally: Tally) -> None:
    tally("fuzz functions", hunt(check_function, CASES, 40))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(100, 104))
def test_many_gradients_keep_their_surface_their_bounds_and_float32(tally: Tally, part: int) -> None:
    tally("fuzz functions", hunt(check_function, CASES, 200, part))

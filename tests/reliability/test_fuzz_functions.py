"""Random functions in mixed precision: the laws that `fuzz_functions.check_function` asserts."""

import pytest
from hypothesis import strategies as st
from tests.reliability.conftest import Tally
from tests.reliability.fuzz_draws import policies, programs, settings_of
from tests.reliability.fuzz_functions import check_function
from tests.reliability.fuzz_runs import hunt

CASES = st.tuples(programs(), settings_of(compiled=False, tapes=[""]), policies())


def test_a_function_keeps_its_surface_its_bounds_and_float32(tally: Tally) -> None:
    tally("fuzz functions", hunt(check_function, CASES, 100))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_many_functions_keep_their_surface_their_bounds_and_float32(tally: Tally, part: int) -> None:
    tally("fuzz functions", hunt(check_function, CASES, 250, part))

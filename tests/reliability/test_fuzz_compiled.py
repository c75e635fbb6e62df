"""Random functions that XLA compiles, with and without gradients, in mixed precision."""

import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest
from hypothesis import strategies as st
from tests.reliability.conftest import Tally
from tests.reliability.fuzz_draws import policies, programs, settings_of
from tests.reliability.fuzz_functions import check_function
from tests.reliability.fuzz_runs import hunt

import mixdown

CASES = st.tuples(programs(compiled=True), settings_of(compiled=True, tapes=["", "inside"]), policies())


def test_a_compiled_function_keeps_its_surface_its_bounds_and_float32(tally: Tally) -> None:
    tally("fuzz functions", hunt(check_function, CASES, 12))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(200, 203))
def test_many_compiled_functions_keep_their_surface_their_bounds_and_float32(tally: Tally, part: int) -> None:
    """In a process of its own: XLA keeps what it compiles, and after some hundred functions more it aborts."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        tally("fuzz functions", pool.submit(hunted, part).result())


def hunted(part: int) -> int:
    """How many were checked; as in other tests, a warning is an error."""
    warnings.simplefilter("error", mixdown.MixdownWarning)
    return hunt(check_function, CASES, 100, part)

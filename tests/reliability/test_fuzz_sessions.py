"""Random v1 graphs in sessions in mixed precision: the laws that `fuzz_sessions.check_session` asserts."""

import pytest
from hypothesis import strategies as st
from tests.reliability.conftest import Tally
from tests.reliability.fuzz_draws import policies, programs
from tests.reliability.fuzz_runs import hunt
from tests.reliability.fuzz_sessions import check_session, settings_of_sessions

CASES = st.tuples(programs(stores=False), settings_of_sessions(), policies())


def test_a_session_keeps_its_surface_its_bounds_and_float32(tally: Tally) -> None:
    tally("fuzz sessions", hunt(check_session, CASES, 20))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(300, 306))
def test_many_sessions_keep_their_surface_their_bounds_and_float32(tally: Tally, part: int) -> None:
    tally("fuzz sessions", hunt(check_session, CASES, 150, part))

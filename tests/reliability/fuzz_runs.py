"""How many programs are drawn, and from which seed: the quick run is always the same, the long one is for hunting."""

import os
import warnings
from collections.abc import Callable
from typing import Any, Final

from hypothesis import HealthCheck, Phase, given, note, seed, settings
from hypothesis import strategies as st

SEED: Final = int(os.environ.get("MIXDOWN_FUZZ_SEED", "0"))
"""Where the long run starts; another number draws other programs."""

_any_speed = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
QUICK: Final = settings(derandomize=True, deadline=None, database=None, suppress_health_check=_any_speed)
LONG: Final = settings(
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=_any_speed,
    phases=[Phase.generate, Phase.shrink],
)


def hunt(check: Callable[..., None], cases: st.SearchStrategy[Any], examples: int, part: int | None = None) -> int:
    """Check so many random cases and return how many there were; a case that breaks a law is shown, made small.

    Args:
        check: asserts the laws for one case.
        cases: tuples of its arguments.
        examples: how many to draw.
        part: which part of the long run this is; None for the quick run.
    """
    checked = 0

    def every_law_holds(case: Any) -> None:
        nonlocal checked
        note(f"MIXDOWN_FUZZ_SEED={SEED}, part {part}")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The rule ")  # random rules match nothing in random programs
            check(*case)
        checked += 1

    law = given(case=cases)(every_law_holds)
    if part is None:
        settings(QUICK, max_examples=examples)(law)()
    else:
        seed(SEED * 1000 + part)(settings(LONG, max_examples=examples)(law))()
    return checked

"""The log of skipped steps: a ring of rows, and what it says."""

from hypothesis import given
from hypothesis import strategies as st

from mixdown.scaling.step_counters import (
    HEAD,
    KEPT,
    LOG_SHAPE,
    NEVER,
    NO_VARIABLE,
    SkippedStep,
    offenders,
    row_of,
    skipped_steps_of,
)

NAMES = [f"v{number}" for number in range(9)]


def filled(skips: int) -> tuple[list[list[int]], list[float]]:
    """The rings after so many skips, at steps 10, 20, 30 and so on, each with one offending variable."""
    rows, scales = [[NEVER] * LOG_SHAPE[1] for _ in range(KEPT)], [0.0] * KEPT
    for number in range(1, skips + 1):
        entries = [4 * (number % 3) + 2, *[NO_VARIABLE] * (LOG_SHAPE[1] - HEAD - 1)]
        rows[row_of(number)], scales[row_of(number)] = [10 * number, 1, *entries], float(number)
    return rows, scales


@given(st.integers(0, 3 * KEPT))
def test_the_log_holds_the_latest_skips_in_order(skips: int) -> None:
    kept = range(max(1, skips - KEPT + 1), skips + 1)
    expected = [SkippedStep(10 * each, float(each), 1, [(f"v{each % 3}", "NaN")]) for each in kept]
    assert skipped_steps_of(*filled(skips), NAMES) == expected


@given(st.integers(0, 3 * KEPT))
def test_the_place_of_the_latest_skip_is_its_row(skips: int) -> None:
    assert filled(skips)[0][row_of(skips)][0] == (10 * skips if skips else NEVER)


def test_offenders_are_told_in_words() -> None:
    assert offenders([4 * 1 + 1, 4 * 2 + 2, 4 * 8 + 3, NO_VARIABLE], NAMES) == [
        ("v1", "Inf"),
        ("v2", "NaN"),
        ("v8", "Inf and NaN"),
    ]
    assert offenders([NO_VARIABLE] * 8, NAMES) == []


def test_an_offender_whose_name_is_not_known_yet_is_told_by_its_number() -> None:
    assert offenders([4 * 9 + 1], NAMES) == [("variable 9", "Inf")]

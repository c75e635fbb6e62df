"""When many skips in a row raise or warn, and with which message."""

import warnings

import pytest

from mixdown.errors import LossScaleError, LossScaleWarning
from mixdown.scaling import SkipLimit

FOUND = [("dense/kernel", "Inf"), ("dense/bias", "Inf and NaN")]


def test_the_error_names_the_culprits_the_limit_and_the_way_out() -> None:
    message = (
        r"^3 steps in a row were skipped because gradients were not finite: dense/kernel \(Inf\), dense/bias \(Inf "
        r"and NaN\)\. That is skip_limit=3: no loss scale mends that\. Look for Inf or NaN in the batch, the loss and "
        r"these variables; pass skip_limit= to choose after how many skips in a row to stop\.$"
    )
    with pytest.raises(LossScaleError, match=message):
        SkipLimit(3).raise_or_warn(3, FOUND)


def test_the_warning_names_the_culprits_and_the_way_out() -> None:
    with pytest.warns(
        LossScaleWarning, match=r"^50 steps in a row .* dense/kernel \(Inf\).* Likely no loss scale mends"
    ):
        SkipLimit(None).raise_or_warn(50, FOUND)


def test_unknown_culprits_are_admitted() -> None:
    with pytest.raises(LossScaleError, match=r"not finite: variables not recorded\."):
        SkipLimit(1).raise_or_warn(1, [])


@pytest.mark.parametrize(("skips", "limit"), [(2, 3), (49, None), (50, 60), (0, 1)])
def test_silence(skips: int, limit: int | None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SkipLimit(limit).raise_or_warn(skips, FOUND)


def test_beyond_the_limit_it_is_still_an_error() -> None:
    with pytest.raises(LossScaleError):
        SkipLimit(3).raise_or_warn(7, FOUND)


def test_the_warning_comes_once_even_if_it_comes_late() -> None:
    limit = SkipLimit(None)
    with pytest.warns(LossScaleWarning, match="^50 steps in a row were skipped"):
        limit.raise_or_warn(60, FOUND)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        limit.raise_or_warn(61, FOUND)
        limit.raise_or_warn(50, FOUND)

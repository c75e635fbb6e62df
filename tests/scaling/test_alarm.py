"""When and how the alarm about repeated skips is sounded."""

import warnings

import pytest

from mixdown.errors import LossScaleError, LossScaleWarning
from mixdown.scaling import sound

FOUND = [("dense/kernel", "Inf"), ("dense/bias", "Inf and NaN")]


def test_the_error_names_the_culprits_the_limit_and_the_way_out() -> None:
    message = (
        r"^3 steps in a row were skipped because gradients were not finite: dense/kernel \(Inf\), dense/bias \(Inf "
        r"and NaN\)\. That is skip_limit=3: no loss scale mends that\. Look for Inf or NaN in the batch, the loss and "
        r"these variables; pass skip_limit= to choose after how many skips in a row to stop\.$"
    )
    with pytest.raises(LossScaleError, match=message):
        sound(3, FOUND, skip_limit=3)


def test_the_warning_names_the_culprits_and_the_way_out() -> None:
    with pytest.warns(
        LossScaleWarning, match=r"^50 steps in a row .* dense/kernel \(Inf\).* Likely no loss scale mends"
    ):
        sound(50, FOUND, skip_limit=None)


def test_unknown_culprits_are_admitted() -> None:
    with pytest.raises(LossScaleError, match=r"not finite: variables not recorded\."):
        sound(1, [], skip_limit=1)


@pytest.mark.parametrize(("skips", "limit"), [(2, 3), (49, None), (51, None), (50, 60), (0, 1)])
def test_silence(skips: int, limit: int | None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sound(skips, FOUND, skip_limit=limit)


def test_beyond_the_limit_it_is_still_an_error() -> None:
    with pytest.raises(LossScaleError):
        sound(7, FOUND, skip_limit=3)

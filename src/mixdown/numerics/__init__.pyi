# The public names, for type checkers and editors, which cannot follow `__getattr__`. A test holds it in step.

from mixdown.tensorflow.numerics.calibrate import calibration as calibration
from mixdown.tensorflow.numerics.callback import LocateCallback as LocateCallback
from mixdown.tensorflow.numerics.compare import compare as compare
from mixdown.tensorflow.numerics.locate import locate as locate
from mixdown.tensorflow.numerics.locate import locating as locating
from mixdown.tensorflow.numerics.statistics import statistics as statistics

__all__: list[str]  # noqa: PYI035 - the package computes it

# The public names, for type checkers and editors, which cannot follow `__getattr__`. A test holds it in step.

from mixdown import compat as compat
from mixdown import jax as jax
from mixdown import keras as keras
from mixdown import numerics as numerics
from mixdown import tf_keras as tf_keras
from mixdown.choose_host import LossScaleOptimizer as LossScaleOptimizer
from mixdown.choose_host import disable_mixed_precision_graph_rewrite as disable_mixed_precision_graph_rewrite
from mixdown.choose_host import enable_mixed_precision_graph_rewrite as enable_mixed_precision_graph_rewrite
from mixdown.choose_host import report as report
from mixdown.choose_host import unwrap as unwrap
from mixdown.core import Policy as Policy
from mixdown.errors import GraphError as GraphError
from mixdown.errors import LossScaleError as LossScaleError
from mixdown.errors import LossScaleWarning as LossScaleWarning
from mixdown.errors import MixdownError as MixdownError
from mixdown.errors import MixdownWarning as MixdownWarning
from mixdown.errors import PlanError as PlanError
from mixdown.errors import PolicyError as PolicyError
from mixdown.tensorflow.convert import convert_saved_model as convert_saved_model
from mixdown.tensorflow.enable import rewrite as rewrite
from mixdown.tensorflow.enable import rewriting as rewriting
from mixdown.tensorflow.enable import tuned_policy as tuned_policy
from mixdown.tensorflow.explaining.explain import explain as explain
from mixdown.tensorflow.loss_scaling.loss_scale import DynamicLossScale as DynamicLossScale
from mixdown.tensorflow.loss_scaling.loss_scale import FixedLossScale as FixedLossScale
from mixdown.tensorflow.loss_scaling.loss_scale import LossScale as LossScale
from mixdown.tensorflow.loss_scaling.optimizers.v1 import (
    MixedPrecisionLossScaleOptimizer as MixedPrecisionLossScaleOptimizer,
)
from mixdown.tensorflow.numerics.bisect import bisect as bisect
from mixdown.tensorflow.numerics.calibrate import calibrate as calibrate
from mixdown.tensorflow.writing.graph_def import rewrite_graph_def as rewrite_graph_def

__version__: str
__all__: list[str]  # noqa: PYI035 - the package computes it

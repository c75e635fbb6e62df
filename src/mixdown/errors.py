"""Everything mixdown raises and warns with. Every message names the culprit, the rule and the way out."""


class MixdownError(Exception):
    """The root of all errors that mixdown raises."""


class GraphError(MixdownError, ValueError):
    """The graph itself is broken: an unknown op, a missing attribute, a dangling input, a cycle."""


class PolicyError(MixdownError, ValueError):
    """The policy contradicts itself, names something that does not exist, or does nothing."""


class PlanError(MixdownError, RuntimeError):
    """A plan breaks one of the laws in `mixdown.core.check` and could not be mended: a bug of ours or of a host."""


class WrongTypeError(MixdownError, TypeError, ValueError):
    """What was passed is of a type that cannot be used. A ValueError too: that is what TensorFlow documents."""


class CrossReplicaError(MixdownError, RuntimeError, ValueError):
    """A method of one replica was called across replicas. TensorFlow documents the one base, and raises the other."""


class LossScaleError(MixdownError, RuntimeError):
    """Too many steps in a row had non-finite gradients: the model, not the scale, is the trouble."""


class ReportError(MixdownError, ValueError):
    """A report file is broken, or not a report at all."""


class MisfitError(MixdownError, ValueError):
    """A value in a JSON file is not of the type that its place asks for."""

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(place, problem)
        self.place, self.problem = place, problem

    def __str__(self) -> str:
        return f"{self.place} {self.problem}"


class MixdownWarning(UserWarning):
    """Something was not done as asked, or would surprise: what, and what to do about it."""


class LossScaleWarning(MixdownWarning):
    """Many steps in a row were skipped, or a loss or its gradients were not scaled and unscaled as they must be."""

"""What mixdown raises and warns with. Every message names the culprit, the rule and the way out."""


class MixdownError(Exception):
    """The root of all errors that mixdown raises on its own account."""


class GraphError(MixdownError, ValueError):
    """The graph itself is broken: an unknown op, a missing attribute, a dangling input, a cycle."""


class PolicyError(MixdownError, ValueError):
    """The policy contradicts itself, names something that does not exist, or does nothing."""


class PlanError(MixdownError, RuntimeError):
    """A plan broke one of the laws in `check` and could not be mended: a bug of ours or of a host."""


class MixdownWarning(UserWarning):
    """Something was not done as asked, or would surprise: what, and what to do about it."""

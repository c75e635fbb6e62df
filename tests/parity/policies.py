"""The policies under which we must agree with TensorFlow, and the ones under which we merely must be sound."""

from mixdown import Policy

LOWS = ("float16", "bfloat16")
RULES = ("documented", "tf-2.19", "tf-2.21")


def like_tensorflow(low: str) -> Policy:
    """What TensorFlow 2.21 does: its rules, its procedure, every node without a device on the CPU."""
    return everywhere(low, "tf-2.21")


def everywhere(low: str, rules: str) -> Policy:
    """Any rule set, on the device the tests have."""
    return Policy(low=low, rules=rules, strategy="grappler", devices=("CPU",))

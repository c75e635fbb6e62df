"""Types of devices: in a device string, by default for a policy, and by default on this machine."""

from __future__ import annotations

import re
from functools import cache

import tensorflow as tf

from mixdown.core import Policy

_TYPE = re.compile(r"/device:([A-Za-z_]+)|/(cpu|gpu|tpu)(?=:|$|/)", re.IGNORECASE)


@cache
def device_type(device: str) -> str:
    """The type in a device string such as "/job:worker/device:GPU:0", "" if it names none."""
    found = _TYPE.search(device)
    return (found[1] or found[2]).upper() if found else ""


def default_type(policy: Policy) -> str:
    """Where a node without a device is assumed to run: on the policy's first device type, or on the CPU."""
    return policy.devices[0] if isinstance(policy.devices, tuple) else "CPU"


def machine_default() -> str:
    """The type of device that TensorFlow runs ops on by default."""
    return next((kind for kind in ("GPU", "TPU") if tf.config.list_logical_devices(kind)), "CPU")

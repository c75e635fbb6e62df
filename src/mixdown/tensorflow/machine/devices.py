"""Types of devices: in a device string, by default for a policy, and by default on this machine; and versions."""

import os
import platform
import re
from functools import cache
from pathlib import Path

import tensorflow as tf

from mixdown import __version__
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


@cache
def described(kind: str) -> str:
    """A type of device with the name that its maker gave it."""
    devices = tf.config.list_physical_devices(kind)
    if kind != "CPU" and devices:
        return f"{kind} {tf.config.experimental.get_device_details(devices[0]).get('device_name', '')}"
    known = Path("/proc/cpuinfo")
    lines = known.read_text("utf-8").splitlines() if known.exists() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{kind} {(named or [platform.processor()])[0]}, {os.cpu_count()} cores"


def versions() -> dict[str, str]:
    """The versions of mixdown and of TensorFlow that are loaded."""
    return {"mixdown": __version__, "tensorflow": tf.__version__}

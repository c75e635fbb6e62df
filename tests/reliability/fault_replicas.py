"""Every host on three mirrored replicas, with faults on any of them, and once more without the bad steps.

Run as a script, because a process may have one such strategy only; prints what came of it as one line of JSON.
"""

import json

import tensorflow as tf
from tests.reliability.fault_training import ON_REPLICAS, books, good, schedule, trained

STEPS, COUNT, REPLICAS = 10, 4, 3


def main() -> None:
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * REPLICAS)
    strategy = tf.distribute.MirroredStrategy([f"CPU:{number}" for number in range(REPLICAS)])
    print(json.dumps({host: outcome(strategy, host, seed) for seed, host in enumerate(ON_REPLICAS)}))  # noqa: T201 - the answer


def outcome(strategy: tf.distribute.Strategy, host: str, seed: int) -> dict[str, object]:
    faults = schedule(seed, STEPS, COUNT, REPLICAS)
    spoiled = trained(host, range(STEPS), faults, mixed=True, strategy=strategy)
    clean = trained(host, good(STEPS, faults), mixed=True, strategy=strategy)
    said, expected = books(spoiled, faults)
    return {
        "faults": [fault._asdict() for fault in faults],
        "said": said,
        "expected": expected,
        "spoiled": [[part.hex() for part in each] for each in spoiled.state()],
        "clean": [[part.hex() for part in each] for each in clean.state()],
    }


if __name__ == "__main__":
    main()

"""Training that can be killed at any moment and started again; prints where it is, and at last what came of it.

Arguments: directory for checkpoints, number of steps, then the hosts of fault_training.py that are trained, all of them
in lockstep, with faults by `schedule`. With TF_CONFIG set, this is one worker of several.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import tensorflow as tf
from tests.reliability.fault_training import HOSTS, schedule

import mixdown

COUNT = 6  # of the steps that are spoiled


class Survivor:
    """A job that is saved after every step."""

    def __init__(self, strategy: Any, host: str, place: Path) -> None:
        self.job = HOSTS[host](strategy)
        with strategy.scope():
            self.next = tf.Variable(0, dtype=tf.int64, trainable=False)
        model: Any = getattr(self.job, "net", None) or tf.train.Checkpoint(w=getattr(self.job, "variables", None))
        count = {"count": self.job.count} if hasattr(self.job, "count") else {}
        self.checkpoint = tf.train.Checkpoint(next=self.next, model=model, optimizer=self.job.optimizer, **count)
        self.checkpoint.restore(tf.train.latest_checkpoint(str(place / host)))
        # All workers take part in saving; what others than the first write is thrown away.
        first = getattr(strategy.cluster_resolver, "task_id", 0) in (0, None)
        mine = place / (host if first else f"{host} of {os.getpid()}")
        self.manager = tf.train.CheckpointManager(self.checkpoint, str(mine), max_to_keep=2)

    def step(self, faults: Any) -> int:
        number = int(self.next.numpy())
        self.job.step(number, faults)
        self.next.assign_add(1)
        self.manager.save()
        return number

    def summary(self) -> dict[str, Any]:
        """Where the job is, and what its books say; JSON can hold it."""
        account = self.job.account()
        return {
            "next": int(self.next.numpy()),
            "loss_scale": account.loss_scale,
            "steps": account.steps,
            "good_steps": account.good_steps,
            "skipped_steps": account.skipped_steps,
            "skips": [[skip.step, list(map(list, skip.offenders))] for skip in account.skips],
        }


def strategy_here() -> Any:
    """Several workers if there is a cluster, else none."""
    return tf.distribute.MultiWorkerMirroredStrategy() if "TF_CONFIG" in os.environ else tf.distribute.get_strategy()


def main(directory: str, steps: str, *hosts: str) -> None:
    strategy = strategy_here()
    faults = schedule(11, int(steps), COUNT, strategy.num_replicas_in_sync)
    with mixdown.rewriting(mixdown.Policy(devices="all")):
        survivors = {host: Survivor(strategy, host, Path(directory)) for host in hosts}
        say({host: each.summary() for host, each in survivors.items()})
        while any(int(each.next.numpy()) < int(steps) for each in survivors.values()):
            behind = min(survivors.values(), key=lambda each: int(each.next.numpy()))  # a kill may come between two
            say(behind.step(faults))
    say({host: [each.summary(), hexadecimal(each.job.state())] for host, each in survivors.items()})
    os._exit(0)  # the collective executor of a worker waits for its peers at a normal exit


def hexadecimal(state: list[list[bytes]]) -> list[list[str]]:
    return [[part.hex() for part in each] for each in state]


def say(what: Any) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])

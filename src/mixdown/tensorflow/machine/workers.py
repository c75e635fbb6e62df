"""Workers that run the same program: what the chief says, heard by all (`said_by_chief`), and the devices of one.

Both know the cluster that MultiWorkerMirroredStrategy has told TensorFlow's context of.
"""

from itertools import count
from typing import Any

import numpy as np
import tensorflow as tf

from mixdown.tensorflow.runtime.private import context

GROUP = 0x6D69786D
"""The key of our group of workers: another than those that TensorFlow's strategies count up from 1."""

LONGEST = 1 << 14
_said = count(1)


def said_by_chief(text: str) -> str:
    """The text of the chief, which every worker calls this for in the same order; one's own where there is no other."""
    server = _server()
    workers = [job for job in server.cluster.job if job.name in ("chief", "worker")] if server else []
    size = sum(len(job.tasks) for job in workers)
    if size < 2:  # noqa: PLR2004 - alone
        return text
    keys = {"group_size": size, "group_key": GROUP, "instance_key": next(_said)}
    with tf.device("CPU:0"):
        if server.task_index == 0 and server.job_name == min(job.name for job in workers):
            letters = np.frombuffer(text.encode("ascii").ljust(LONGEST), np.uint8).astype(np.int32)
            tf.raw_ops.CollectiveBcastSendV2(input=letters, **keys)
            return text
        heard = tf.raw_ops.CollectiveBcastRecvV2(shape=[LONGEST], T=tf.int32, **keys)
    return heard.numpy().astype(np.uint8).tobytes().decode("ascii").rstrip()


def synchronize() -> None:
    """Wait until the devices of this process are idle."""
    server = _server()
    if server is None:
        tf.test.experimental.sync_devices()
        return
    own = f"/job:{server.job_name}/replica:0/task:{server.task_index}/"
    for device in tf.config.list_logical_devices():  # those of other workers too
        if device.name.startswith(own):
            with tf.device(device.name):
                tf.raw_ops.SyncDevice()


def _server() -> Any:
    return getattr(context(), "_collective_ops_server_def", None)

"""TF-Agents: a deep Q-network, trained on recorded transitions."""

from typing import Any

import numpy as np
import tensorflow as tf
from benchmarks.zoo.training import BATCH, Run
from tf_agents.agents.dqn import dqn_agent
from tf_agents.networks import q_network
from tf_agents.specs import BoundedTensorSpec, TensorSpec
from tf_agents.trajectories import time_step, trajectory


def tf_agents_DQN(run: Run) -> list[float]:  # noqa: N802 - the name of the method
    """Learn the values of actions; the agent itself asks the optimizer for its steps."""
    state = TensorSpec((4,), tf.float32)
    action = BoundedTensorSpec((), tf.int64, 0, 1)
    network = q_network.QNetwork(state, action, fc_layer_params=(64, 64))
    optimizer = run.optimizer(tf.compat.v1.train.AdamOptimizer(1e-3))
    agent = dqn_agent.DqnAgent(time_step.time_step_spec(state), action, q_network=network, optimizer=optimizer)
    agent.initialize()
    pairs = (BATCH, 2)
    experience = trajectory.Trajectory(
        step_type=tf.ones(pairs, tf.int32),
        observation=tf.constant(run.data.normal(size=(*pairs, 4)).astype("float32")),
        action=tf.constant(run.data.integers(0, 2, pairs)),
        policy_info=(),
        next_step_type=tf.ones(pairs, tf.int32),
        reward=tf.constant(run.data.normal(size=pairs).astype("float32")),
        discount=tf.constant(np.ones(pairs, "float32")),
    )

    def step() -> Any:
        return agent.train(experience).loss

    return run.repeat(step)

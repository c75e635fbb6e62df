"""Eight CPU devices for the tests of shards; JAX must be told before it looks for devices."""

import jax

jax.config.update("jax_num_cpu_devices", 8)

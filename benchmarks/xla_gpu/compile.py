"""Compile HLO modules with XLA's GPU compiler, without a GPU, in the environment that `make bench-gpu` sets up.

    .venv-gpu/bin/python benchmarks/xla_gpu/compile.py a100 step.pb [more.pb ...]

The input is a serialized HLO module; the output is the text of the optimized module, in `step.a100.txt` next to it.
Autotuning is off, because there is no GPU to time kernels on, and matrix products are library calls: without autotuning
XLA would generate a kernel for every product. The JAX modules used are private; they are those of JAX 0.10.2, which the
Makefile installs.
"""

import os
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from jax._src.interpreters.mlir import make_ir_context
from jax._src.lib import _jax, hlo, xla_client
from jax._src.lib.mlir import ir
from jax.experimental import topologies

OPTIONS = [("xla_gpu_autotune_level", 0), ("xla_gpu_enable_triton_gemm", False)]


def main(arguments: Sequence[str]) -> None:
    """Compile every file for one device, and print how long each took."""
    name, *files = arguments
    device = described(name)
    for file in map(Path, files):
        start = time.perf_counter()
        file.with_suffix(f".{name}.txt").write_text(compiled(file.read_bytes(), device))
        print(f"  {file.stem} for {name}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)


def described(name: str) -> Any:
    """A device that this machine does not have, created from its description."""
    text = Path(__file__).with_name(f"{name}.txtpb").read_text()
    topology = topologies.get_topology_desc(name, platform="cuda", target_config=text, topology="1x1x1")
    return topology.devices[0]


def compiled(module: bytes, device: Any) -> str:
    """Compile a serialized module for a device and return the text of the optimized module."""
    options = xla_client.CompileOptions()
    options.num_replicas = options.num_partitions = 1
    options.device_assignment = xla_client.DeviceAssignment.create(np.array([[0]]))
    options.env_option_overrides = OPTIONS
    with make_ir_context():
        program = ir.Module.parse(_jax.mlir.hlo_to_stablehlo(without_copies(module)))
    devices = xla_client.DeviceList((device,))
    executable = device.client.compile(program, executable_devices=devices, compile_options=options)
    return "\n".join(part.to_string() for part in executable.hlo_modules())


def without_copies(module: bytes) -> bytes:
    """The module with copies replaced by reshapes to the same shape, because StableHLO has no copy."""
    text = hlo.HloModule.from_serialized_hlo_module_proto(module).to_string()
    text = re.sub(r"(= \S+ )copy\(", r"\1reshape(", text)
    return hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()


if __name__ == "__main__":
    main(sys.argv[1:])

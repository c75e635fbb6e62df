"""Compile HLO modules with XLA's GPU compiler, without a GPU, in the environment that `make bench-gpu` sets up.

    .venv-gpu/bin/python benchmarks/xla_gpu/compile.py a100 step.pb [more.pb ...]

The input is a serialized HLO module. Next to it the text of the optimized module is written, `step.a100.txt`, and what
it comes to, `step.a100.json`. A module that was compiled before, names and source lines apart, is looked up in the
folder `.bench-gpu`. Autotuning is off, because there is no GPU to time kernels on, and matrix products are library
calls: without autotuning XLA would generate a kernel for every product. The JAX modules used are private; they are
those of JAX 0.10.2, which the Makefile installs.
"""

import hashlib
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # run as a script, this is `benchmarks.xla_gpu.compile`

import jax
import numpy as np
from benchmarks.xla_gpu.hlo_text import parse
from benchmarks.xla_gpu.traffic import kernels
from jax._src.interpreters.mlir import make_ir_context
from jax._src.lib import _jax, hlo, xla_client
from jax._src.lib.mlir import ir
from jax.experimental import topologies

OPTIONS = [("xla_gpu_autotune_level", 0), ("xla_gpu_enable_triton_gemm", False)]
STORE = Path(__file__).resolve().parents[2] / ".bench-gpu"


def main(arguments: Sequence[str]) -> None:
    """Compile every file for one device, and print how long each took."""
    name, *files = arguments
    device = described(name)
    STORE.mkdir(exist_ok=True)
    for file in map(Path, files):
        start = time.perf_counter()
        text = without_copies(file.read_bytes())
        stored = STORE / digest(text, name)
        if not stored.with_suffix(".json").exists():
            optimized, temporary = compiled(text, device)
            stored.with_suffix(".txt").write_text(optimized)
            stored.with_suffix(".json").write_text(json.dumps(summary(optimized, temporary)))
            print(f"  {file.stem} for {name}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
        for suffix in (".txt", ".json"):
            shutil.copy(stored.with_suffix(suffix), file.with_suffix(f".{name}{suffix}"))


def described(name: str) -> Any:
    """A device that this machine does not have, created from its description."""
    text = Path(__file__).with_name(f"{name}.txtpb").read_text()
    topology = topologies.get_topology_desc(name, platform="cuda", target_config=text, topology="1x1x1")
    return topology.devices[0]


def compiled(text: str, device: Any) -> tuple[str, int]:
    """Compile a module for a device: the text of the optimized module, and the bytes of temporary memory it needs."""
    options = xla_client.CompileOptions()
    options.num_replicas = options.num_partitions = 1
    options.device_assignment = xla_client.DeviceAssignment.create(np.array([[0]]))
    options.env_option_overrides = OPTIONS
    module = hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    with make_ir_context():
        program = ir.Module.parse(_jax.mlir.hlo_to_stablehlo(module))
    devices = xla_client.DeviceList((device,))
    executable = device.client.compile(program, executable_devices=devices, compile_options=options)
    memory = executable.get_compiled_memory_stats()
    return "\n".join(part.to_string() for part in executable.hlo_modules()), memory.temp_size_in_bytes


def summary(optimized: str, temporary: int) -> dict[str, int]:
    """What a compiled module comes to."""
    made = kernels(parse(optimized))
    return {
        "bytes": sum(kernel.size for kernel in made),
        "temporary": temporary,
        "kernels": len(made),
        "casts": sum(kernel.casts for kernel in made),
        "casts alone": sum(kernel.casts for kernel in made if kernel.only_casts),
    }


def without_copies(module: bytes) -> str:
    """The text of a module with copies replaced by reshapes to the same shape, because StableHLO has no copy."""
    text = hlo.HloModule.from_serialized_hlo_module_proto(module).to_string()
    return re.sub(r"(= \S+ )copy\(", r"\1reshape(", text)


def digest(text: str, device: str) -> str:
    """The name under which a compiled module is stored: names of the program and source lines do not matter."""
    _, _, body = text.partition("\n")
    bare = re.sub(r", metadata=\{[^}]*\}", "", body)
    return hashlib.sha256(json.dumps([bare, device, OPTIONS, jax.__version__]).encode()).hexdigest()


if __name__ == "__main__":
    main(sys.argv[1:])

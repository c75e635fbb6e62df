"""Bytes that the kernels of a training step in JAX read and write, as compiled by XLA's GPU compiler: `make bench-jax`.

Every model is compiled in float32, annotated by hand with a 16-bit dtype, and as rewritten by mixdown. No GPU is
needed: XLA compiles for the device described in `xla_gpu/a100.txtpb` or `xla_gpu/h100.txtpb`. What was compiled before
is looked up by its content in the folder `.bench-jax`.

    .venv-gpu/bin/python benchmarks/jax_bytes.py [--models ResNet50,GPT-2] [--dtype float16] [--device h100]
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import jax
import numpy as np
from benchmarks.jax_models.zoo import MODELS, Model
from benchmarks.xla_gpu.hlo_text import parse
from benchmarks.xla_gpu.traffic import kernels
from jax.experimental import topologies
from jax.extend.core import jaxpr_as_fun

from mixdown import Policy
from mixdown.jax.programs import plan_program

ROOT = Path(__file__).resolve().parents[1]
OPTIONS = {"xla_gpu_autotune_level": 0, "xla_gpu_enable_triton_gemm": False}
LINE = "{:<14} {:<10} {:>10} {:>9} {:>9} {:>8} {:>7} {:>9}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Compile and print, model by model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MODELS), help="comma-separated (default: all)")
    parser.add_argument("--variants", default="float32,by hand,mixdown", help="comma-separated (default: all)")
    parser.add_argument("--dtype", default="bfloat16", choices=("bfloat16", "float16"), help="(default: %(default)s)")
    parser.add_argument("--device", default="a100", choices=("a100", "h100"), help="(default: %(default)s)")
    parser.add_argument("--keep", type=Path, help="a folder for the compiled modules; by default they are not kept")
    options = parser.parse_args(arguments)
    print(f"One training step for the {options.device.upper()}, {options.dtype}; bytes at kernel boundaries\n")
    print(LINE.format("model", "variant", "MB", "/float32", "/by hand", "kernels", "casts", "temp MB"), flush=True)
    for name in options.models.split(","):
        sizes: dict[str, int] = {}
        for variant in options.variants.split(","):
            step = lowered(name, variant, options.dtype, options.device)
            found = measured(step, options.device, options.keep and options.keep / f"{name}-{variant}")
            sizes[variant] = found["bytes"]
            ratios = [f"{found['bytes'] / sizes[peer]:.3f}" if peer in sizes else "" for peer in ("float32", "by hand")]
            columns = (found["kernels"], found["casts"], f"{found['temp'] / 1e6:.0f}")
            print(LINE.format(name, variant, f"{found['bytes'] / 1e6:.1f}", *ratios, *columns), flush=True)


def lowered(name: str, variant: str, low: str, device: str) -> Any:
    """A training step, lowered for a GPU."""
    model: Model = MODELS[name](low if variant == "by hand" else None, False)  # noqa: FBT003 - full-sized
    key = jax.random.key(0)
    state, batch = jax.eval_shape(model.start, key), jax.eval_shape(model.batch, key)
    step = mixed(model.step, (state, *batch), low) if variant == "mixdown" else model.step
    arguments = jax.tree.map(functools.partial(placed, device=device), (state, *batch))
    return jax.jit(step, donate_argnums=0).trace(*arguments).lower(lowering_platforms=("cuda",))


def mixed(step: Any, arguments: Any, low: str) -> Any:
    """A step as mixdown rewrites it for a GPU."""
    closed, tree = jax.make_jaxpr(step, return_shape=True)(*arguments)
    program = plan_program(closed, Policy(rules="jax", low=low, devices="all"), "cuda")
    run = jaxpr_as_fun(program.closed(differentiable=False))
    return lambda *given: jax.tree.unflatten(jax.tree.structure(tree), run(*jax.tree.leaves(given)))


def description(device: str) -> str:
    """What XLA is told of a GPU."""
    return (ROOT / "benchmarks" / "xla_gpu" / f"{device}.txtpb").read_text()


@functools.cache
def mesh(device: str) -> Any:
    """A GPU that this machine does not have, created from its description."""
    text = description(device)
    made = topologies.get_topology_desc(device, platform="cuda", target_config=text, topology="1x1x1").devices[0]
    return jax.sharding.Mesh(np.array([made]), ("x",))


def placed(leaf: Any, device: str) -> Any:
    """The shape of a leaf, placed on that GPU."""
    whole = jax.sharding.NamedSharding(mesh(device), jax.sharding.PartitionSpec())
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=whole)


def measured(step: Any, device: str, keep: Path | None) -> dict[str, int]:
    """What a lowered step comes to, looked up or compiled."""
    content = json.dumps([step.as_text(), OPTIONS, jax.__version__, description(device)])
    stored = ROOT / ".bench-jax" / f"{hashlib.sha256(content.encode()).hexdigest()}.json"
    if stored.exists() and keep is None:
        return dict(json.loads(stored.read_text()))
    start = time.perf_counter()
    compiled = step.compile(compiler_options=OPTIONS)
    print(f"  compiled in {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    if keep is not None:
        keep.parent.mkdir(parents=True, exist_ok=True)
        keep.with_suffix(".txt").write_text(compiled.as_text())
    made = kernels(parse(compiled.as_text()))
    found = {
        "bytes": sum(kernel.size for kernel in made),
        "kernels": len(made),
        "casts": sum(kernel.casts for kernel in made),
        "temp": compiled.memory_analysis().temp_size_in_bytes,
    }
    stored.parent.mkdir(exist_ok=True)
    stored.write_text(json.dumps(found))
    return found


if __name__ == "__main__":
    main()

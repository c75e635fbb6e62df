"""Bytes that the kernels of a training step read and write, as compiled by XLA's GPU compiler: `make bench-gpu`.

Every model is compiled in float32, under Keras's dtype policy, as rewritten by TensorFlow's own pass, and as rewritten
by mixdown. No GPU is needed: XLA compiles for the devices described in `a100.txtpb` and `h100.txtpb`. The first run
takes about an hour on two cores; what was compiled before is looked up. TensorFlow's pass writes a graph that XLA
rejects if there are tensor lists in it: then its row says so.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # run as a script, this is `benchmarks.xla_gpu.table`

import tensorflow as tf
from benchmarks.xla_gpu.lower import Variant, lowered, mixdowns, tensorflows_colouring
from benchmarks.xla_gpu.models import MODELS

from mixdown import Policy

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = "example: .venv/bin/python benchmarks/xla_gpu/table.py --models MLP,conv+BN --dtypes float16 --devices a100"
KERAS, THEIRS, OURS = "Keras's policy", "TensorFlow's colouring", "mixdown"
LINE = "{:<14} {:<6} {:<9} {:<24} {:>9} {:>8} {:>8} {:>8} {:>8} {:>8} {:>12}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Lower, compile and print, model by model."""
    options = read_options(arguments)
    print("One training step; casts: all (in kernels of their own); best: the better one of the two peers\n")
    head = ("model", "device", "dtype", "variant", "MB", "/float32", "/best", "temp MB", "/best", "kernels", "casts")
    print(LINE.format(*head))
    with tempfile.TemporaryDirectory() as folder:
        for model in options.models.split(","):
            for low in options.dtypes.split(","):
                files = lower_all(model, low, options, Path(options.keep or folder))
                for device in options.devices.split(","):
                    compile_all(options.compiler, device, files.values())
                    print_rows((model, device, low), {name: measured(file, device) for name, file in files.items()})


def read_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line: what to measure, and with which policy."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", default=",".join(MODELS), help="comma-separated (default: %(default)s)")
    parser.add_argument("--devices", default="a100,h100", help="comma-separated (default: %(default)s)")
    parser.add_argument("--dtypes", default="float16,bfloat16", help="comma-separated (default: %(default)s)")
    parser.add_argument("--strategy", help="of mixdown's policy, if not its default")
    parser.add_argument("--rules", help="of mixdown's policy, if not its default")
    parser.add_argument("--compiler", type=Path, default=ROOT / ".venv-gpu/bin/python", help="a Python with JAX 0.10.2")
    parser.add_argument("--keep", help="a folder for the HLO, before and after the compiler; by default it is deleted")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.models.split(",") if name not in MODELS]:
        parser.error(f"no such model: {', '.join(unknown)}; there are {', '.join(MODELS)}")
    return options


def lower_all(model: str, low: str, options: argparse.Namespace, folder: Path) -> dict[str, Path]:
    """Write the modules of all variants that can be lowered, and return their files."""
    given = {name: value for name in ("strategy", "rules") if (value := getattr(options, name))}
    variants = {
        "float32": Variant(),
        KERAS: Variant(f"mixed_{low}"),
        THEIRS: Variant(rewrite=tensorflows_colouring(low)),
        OURS: Variant(rewrite=mixdowns(Policy(low=low, **given))),
    }
    folder.mkdir(parents=True, exist_ok=True)
    files = {}
    for name, variant in variants.items():
        file = folder / f"{model}-{low}-{name}.pb".replace(" ", "_")
        try:
            file.write_bytes(lowered(model, variant))
        except (ValueError, tf.errors.InvalidArgumentError):
            if name != THEIRS:
                raise
            print(f"  {model}: XLA rejects {name}", file=sys.stderr, flush=True)
            continue
        files[name] = file
    return files


def compile_all(compiler: Path, device: str, files: Iterable[Path]) -> None:
    """Compile lowered steps in the environment with JAX."""
    script = Path(__file__).with_name("compile.py")
    subprocess.run([compiler, script, device, *files], check=True)  # noqa: S603 - our own script


def measured(file: Path, device: str) -> dict[str, int]:
    """What a compiled step comes to, from the file that `compile.py` wrote next to it."""
    return dict(json.loads(file.with_suffix(f".{device}.json").read_text()))


def print_rows(subject: tuple[str, str, str], found: dict[str, dict[str, int]]) -> None:
    """Print one row per variant, with its bytes and its memory relative to those of the better peer."""
    peers = [found[name] for name in (KERAS, THEIRS) if name in found]
    best = {key: min(peer[key] for peer in peers) for key in ("bytes", "temporary")}
    for name, its in found.items():
        columns = (
            f"{its['bytes'] / 1e6:.1f}",
            f"{its['bytes'] / found['float32']['bytes']:.3f}",
            f"{its['bytes'] / best['bytes']:.3f}",
            f"{its['temporary'] / 1e6:.0f}",
            f"{its['temporary'] / best['temporary']:.3f}",
            its["kernels"],
            f"{its['casts']} ({its['casts alone']})",
        )
        print(LINE.format(*subject, name, *columns), flush=True)


if __name__ == "__main__":
    main()

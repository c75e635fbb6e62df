"""What our model of the compiler says is stored between kernels, beside what XLA's GPU compiler stores.

    .venv/bin/python benchmarks/xla_gpu/stored.py U-Net float16
    .venv/bin/python benchmarks/xla_gpu/stored.py MLP,GPT,U-Net --totals

One line per op whose value crosses kernels, those with the largest difference first: how it is stored by the model
(dtype, and the bytes written and read), how by the compiled module, and the difference. Values are matched by the names
of ops, and a fusion has the name of its last op, so a value may be listed under two names. Then the totals, of our plan
and of float32: these are the bytes that `mixdown.explain(..., device=...)` predicts.
"""

import argparse
import os
import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # run as a script, this is `benchmarks.xla_gpu.stored`

from benchmarks.xla_gpu.hlo_text import Instruction, Module, parse
from benchmarks.xla_gpu.lower import Variant, inlined, lowered
from benchmarks.xla_gpu.models import MODELS
from benchmarks.xla_gpu.table import ROOT, compile_all, measured
from benchmarks.xla_gpu.traffic import fused_by, launched, reads, written

from mixdown import Policy, rewrite_graph_def
from mixdown.core import Plan
from mixdown.core.pricing import CompiledRun

SHORT = {"float16": "f16", "bfloat16": "bf16", "float32": "f32"}
ARGUMENTS = "(arguments)"
SMALL = 1e5
LINE = "{:>9} {:<14} {:>9} {:<14} {:>9}  {}"
TOTALS = "{:<14} {:<9} {:>10} {:>10} {:>6} {:>10} {:>10} {:>6}"

Boundaries = dict[str, dict[str, int]]
"""Op -> dtype -> bytes written and read."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Plan, lower, compile and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", help=f"comma-separated, of {', '.join(MODELS)}")
    parser.add_argument("low", nargs="?", default="float16", choices=("float16", "bfloat16"))
    parser.add_argument("--device", default="a100", choices=("a100", "h100"))
    parser.add_argument("--totals", action="store_true", help="print the totals only")
    parser.add_argument("--compiler", type=Path, default=ROOT / ".venv-gpu/bin/python", help="a Python with JAX 0.10.2")
    options = parser.parse_args(arguments)
    rows = []
    for name in options.models.split(","):
        with tempfile.TemporaryDirectory() as folder:
            plan, files = compiled(name, options, Path(folder))
            total = [measured(file, options.device)["bytes"] for file in files]
            text = files[1].with_suffix(f".{options.device}.txt").read_text()
        full, mixed = plan.compiled_runs(plan.paints)
        if not options.totals:
            given = {op.name for op in plan.graph.ops if op.kind == "_Arg"}
            print_differences(of_model(plan, mixed, given), of_module(parse(text), given))
        ends = [(run.bytes, count) for run, count in zip((full, mixed), total, strict=True)]
        figures = [text for ours, theirs in ends for text in (_mega(ours), _mega(theirs), f"{ours / theirs:.3f}")]
        rows.append(TOTALS.format(name, options.low, *figures))
    print(TOTALS.format("MB", "", "float32", "compiled", "", "mixed", "compiled", ""))
    print("\n".join(rows))


def compiled(name: str, options: argparse.Namespace, folder: Path) -> tuple[Plan, tuple[Path, Path]]:
    """The plan of a model, and its float32 step and ours after the compiler."""
    plans: list[Plan] = []

    def rewrite(graph_def: Any, feeds: Sequence[str], fetches: Sequence[str]) -> Any:
        result = rewrite_graph_def(graph_def, fetches, feeds=feeds, policy=Policy(low=options.low))
        plans.append(result.plan)
        return inlined(result.graph_def, [*feeds, *fetches])

    files = folder / "float32.pb", folder / "mixdown.pb"
    for file, variant in zip(files, (Variant(), Variant(rewrite=rewrite)), strict=True):
        file.write_bytes(lowered(name, variant))
    compile_all(options.compiler, options.device, files)
    return plans[0], files


def of_model(plan: Plan, run: CompiledRun, arguments: Collection[str]) -> Boundaries:
    """What the model says."""
    out: Boundaries = defaultdict(lambda: defaultdict(int))
    for one in run.stored:
        op = plan.graph.ops[plan.graph.sites[plan.graph.tensors[one.tensor].site].op]
        dtype = plan.policy.low if one.width == 2 else "float32"
        out[ARGUMENTS if op.name in arguments else _bare(op.name)][SHORT[dtype]] += run.size(one)
    return out


def of_module(module: Module, arguments: Collection[str]) -> Boundaries:
    """What the compiler does."""
    out: Boundaries = defaultdict(lambda: defaultdict(int))

    def note(kernel: Instruction, index: int, size: int) -> None:
        name = _maker(module, kernel, index)
        out[ARGUMENTS if name in arguments else name][kernel.arrays[min(index, len(kernel.arrays) - 1)].dtype] += size

    made = {name: {each.name: each for each in inside} for name, inside in module.computations.items()}
    for inside, kernel in launched(module, module.entry):
        for index, array in enumerate(written(kernel)):
            note(kernel, index, array.size)
        for operand, size in reads(module, kernel, made[inside]).items():
            note(*_source(made[inside], operand), size)
    return out


def _source(made: dict[str, Instruction], name: str) -> tuple[Instruction, int]:
    """The kernel or parameter that an operand comes from, and which of its results it is."""
    index = 0
    while made[name].opcode in ("bitcast", "get-tuple-element"):
        index = made[name].index if made[name].opcode == "get-tuple-element" else index
        name = made[name].operands[0]
    return made[name], index


def _maker(module: Module, kernel: Instruction, index: int) -> str:
    """The op that made one result of a kernel."""
    if kernel.opcode == "parameter":
        return ARGUMENTS
    fused = {each.name: each for each in fused_by(module, kernel)}
    root = list(fused.values())[-1] if fused else kernel
    if root.opcode == "tuple" and index < len(root.operands):
        root = fused[root.operands[index]]
    while not root.op_name and root.operands and root.operands[0] in fused:
        root = fused[root.operands[0]]
    return _bare(root.op_name or kernel.op_name) or kernel.name


def _bare(name: str) -> str:
    """The name of an op without the function it was inlined from; of a cast, the op whose value it converts."""
    return re.sub(r"^.*PartitionedCall[^/]*/|/cast_\d+_to_\w+$", "", name)


def print_differences(ours: Boundaries, theirs: Boundaries) -> None:
    """One line per op, the largest difference first; those that differ little are summed up."""
    print(LINE.format("model", "", "compiled", "", "MB more", "op"))
    apart = {op: sum(ours.get(op, {}).values()) - sum(theirs.get(op, {}).values()) for op in {*ours, *theirs}}
    shown = sorted((op for op in apart if abs(apart[op]) >= SMALL), key=lambda op: (-abs(apart[op]), op))
    for op in shown:
        print(LINE.format(*_sized(ours.get(op, {})), *_sized(theirs.get(op, {})), f"{apart[op] / 1e6:+.1f}", op))
    rest = sum(apart[op] for op in apart if op not in set(shown))
    print(LINE.format("", "", "", "", f"{rest / 1e6:+.1f}", f"{len(apart) - len(shown)} others\n"))


def _sized(found: dict[str, int]) -> Iterator[str]:
    yield f"{sum(found.values()) / 1e6:.1f}" if found else "-"
    yield "+".join(sorted(dtype for dtype, size in found.items() if size > SMALL))


def _mega(size: int) -> str:
    return f"{size / 1e6:.1f}"


if __name__ == "__main__":
    main()

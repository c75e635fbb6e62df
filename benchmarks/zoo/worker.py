"""One program in this process: float32 with two seeds, mixed, and both compiled. Prints what came out as JSON.

Run by `runner`, in the environment of the program: `python benchmarks/zoo/worker.py "keras hub BERT" float16`.
"""

import gc
import json
import os
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # its parts are `benchmarks.zoo.*`
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

from benchmarks.zoo.catalogue import KERAS_3, PROGRAMS, Program

ANSWER = "answer: "


def main() -> None:
    """Run the program that the command line names, for all the dtypes that follow."""
    name, *dtypes = sys.argv[1:]
    print(ANSWER + json.dumps({"runs": list(runs(PROGRAMS[name], dtypes or ["float16"]))}))


def runs(program: Program, dtypes: Iterable[str]) -> Iterator[dict[str, Any]]:
    """All runs of a program."""
    for compiled in (False, True):
        for seed in (1,) if compiled else (1, 2):
            yield one_run(program, "float32", compiled=compiled, seed=seed)
        for dtype in dtypes:
            yield one_run(program, dtype, compiled=compiled, seed=1)


def one_run(program: Program, dtype: str, *, compiled: bool, seed: int) -> dict[str, Any]:
    """One run: its losses or its error, and what mixdown did."""
    import tensorflow as tf  # noqa: PLC0415 - after the environment was set up
    from benchmarks.zoo.training import Run  # noqa: PLC0415 - the same

    import mixdown  # noqa: PLC0415 - the same
    from mixdown.tensorflow.calls import active_policy, tracing_time  # noqa: PLC0415 - the same
    from mixdown.tensorflow.explaining.process_report import scaler_reports  # noqa: PLC0415 - the same

    keras = import_module("keras" if program.environment == KERAS_3 else "tf_keras")
    function = getattr(import_module(f"benchmarks.zoo.{program.module}"), program.function)  # may draw random numbers
    keras.backend.clear_session()
    keras.utils.set_random_seed(seed)
    tf.random.set_seed(seed)
    policy = None if dtype == "float32" else mixdown.Policy(low=dtype, devices=("GPU", "CPU"))
    gc.collect()  # the optimizers of the run before, whose skipped steps are not to be counted
    run = Run(keras, policy, compiled, seed)
    out: dict[str, Any] = {"dtype": dtype, "compiled": compiled, "seed": seed, "losses": [], "error": ""}
    start, traced, made = time.perf_counter(), tracing_time.traced(), list[tuple[float, Any]]()
    with warnings.catch_warnings(record=True) as given, watched_planning(made):
        warnings.simplefilter("always")
        try:
            out["losses"] = function(run)
        except Exception as error:  # noqa: BLE001 - whatever a program raises is its result
            out["error"] = f"{type(error).__name__}: {str(error).strip()[:500]}"
            traceback.print_exc()
    out |= {"seconds": time.perf_counter() - start, "tracing": tracing_time.traced() - traced}
    if policy is not None:
        ours = [str(each.message) for each in given if issubclass(each.category, mixdown.MixdownWarning)]
        skipped = [scaler.skipped_steps for scaler in scaler_reports()]
        out |= {"warnings": list(dict.fromkeys(ours)), "skipped": max(skipped, default=0)}
        out |= {"planning": sum(seconds for seconds, _ in made), **arithmetic([twin.plan for _, twin in made])}
        mixdown.disable_mixed_precision_graph_rewrite()
        active_policy._made.pop(policy, None)
    return out


@contextmanager
def watched_planning(made: list[tuple[float, Any]]) -> Iterator[None]:
    """Note for every function that is planned how long that took, and its twin, which may soon be gone."""
    from mixdown.tensorflow.calls.twins import Twins  # noqa: PLC0415 - after the environment was set up

    make = Twins._make

    def watched(twins: Any, context: Any, key: Any, inputs: Any) -> None:
        start = time.perf_counter()
        make(twins, context, key, inputs)
        made.append((time.perf_counter() - start, twins._made[key]))

    with patch.object(Twins, "_make", watched):
        yield


def arithmetic(plans: Iterable[Any]) -> dict[str, Any]:
    """How much of the matrix arithmetic of all planned functions is 16-bit, and why the rest is not."""
    from mixdown.core import Paint  # noqa: PLC0415 - after the environment was set up
    from mixdown.core.why import reason  # noqa: PLC0415 - the same

    low, kept = 0, Counter[str]()
    for plan in filter(None, plans):
        for op, work in zip(plan.graph.ops, plan.graph.work, strict=True):
            if work and all(plan.paints[site] is Paint.LOW for site in op.sites):
                low += work
            elif work:
                kept[f"{op.kind}: {reason(plan.view, plan.strokes, op.sites[0])}"] += work
    return {"low_work": low, "full_work": sum(kept.values()), "kept": kept.most_common(3)}


if __name__ == "__main__":
    main()

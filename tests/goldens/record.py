"""Goldens: `python tests/goldens/record.py` writes what the planner decides today into every case here.

A case is a text file: a graph in the words of `language`, a line `--`, then one line an op (its strokes, the last of
which is its paint, each with its stage and its cause) and one line a cast. Review the difference before you keep it.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))  # so that it runs as a script

from tests.goldens.language import OUTSIDE, parse  # noqa: E402 - the same

from mixdown.core import Paint, Plan, Stroke, make_plan  # noqa: E402 - needs the path above
from mixdown.core.why import reason  # noqa: E402 - the same

RULE = "--"


def cases() -> list[Path]:
    """Every golden."""
    return sorted(HERE.glob("*.txt"))


def recorded(text: str) -> str:
    """A case with what the planner decides today."""
    question = text.partition(f"\n{RULE}\n")[0].rstrip()
    graph, policy = parse(question.splitlines())
    return "\n".join([question, RULE, *_answer(make_plan(graph, policy))]) + "\n"


def _answer(plan: Plan) -> list[str]:
    graph = plan.graph
    shown = [site for site in range(len(graph.sites)) if graph.kinds[site] != OUTSIDE]
    width = max(len(graph.label(site)) for site in shown)
    paints = [f"{graph.label(site):{width}} {_history(plan, site)}" for site in shown]
    return [*paints, *_casts(plan)]


def _history(plan: Plan, site: int) -> str:
    return " | ".join(_stroke(plan, stroke, site) for stroke in plan.strokes[site])


def _stroke(plan: Plan, stroke: Stroke, site: int) -> str:
    causes = " and ".join(plan.graph.label(cause) for cause in stroke.because)
    then = [*plan.strokes[:site], (stroke,), *plan.strokes[site + 1 :]]  # as if the site had stayed with this stroke
    return f"{stroke.paint.value:4} {stroke.stage} <- {causes or reason(plan.view, then, site)}"


def _casts(plan: Plan) -> list[str]:
    lines = []
    for cast in plan.casts:
        tensor = plan.graph.tensors[cast.tensor]
        readers = [plan.graph.label(site) for site in tensor.consumers if plan.paints[site] is cast.to]
        lines.append(f"cast {tensor.name} -> {cast.to.value} for {', '.join(dict.fromkeys(readers))}")
    return sorted(lines) or ["no casts" if Paint.LOW in plan.paints else "nothing is low"]


if __name__ == "__main__":
    for case in cases():
        case.write_text(recorded(case.read_text("utf-8")), "utf-8")

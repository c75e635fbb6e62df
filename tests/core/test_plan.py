"""Plans as values: equal, plain data, deterministic, and refused if a law cannot be kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.goldens.language import parse
from tests.goldens.record import cases

from mixdown.core import Graph, Paint, Plan, Policy, Stroke, make_plan
from mixdown.core.check import LAWS, offenders
from mixdown.core.policy_view import PolicyView
from mixdown.errors import PlanError

if TYPE_CHECKING:
    from collections.abc import Sequence

LOW, FULL = Paint.LOW, Paint.FULL
TEXT = "a = MatMul(x, w)\nt = Tanh(a)\nb = MatMul(t, w)\nd = Exp(b)"


def plan_of(text: str) -> Plan:
    return make_plan(*parse(text.splitlines()))


def test_equal_decisions_are_equal_plans() -> None:
    assert plan_of(TEXT) == plan_of(TEXT)
    assert plan_of(TEXT) != plan_of(TEXT.replace("Tanh", "Exp"))
    assert plan_of(TEXT) != "a plan"
    with pytest.raises(TypeError):
        hash(plan_of(TEXT))


def test_a_plan_is_plain_data() -> None:
    data = plan_of(TEXT).to_dict()
    assert json.loads(json.dumps(data)) == data
    assert data["sites"]["t"] == [["low", "bridge", ["a", "b"]]]
    assert data["casts"] == [["b", "full"], ["w", "low"], ["x", "low"]]
    assert data["policy"] == Policy(strategy="grappler").to_dict()


def test_a_plan_knows_whether_it_does_anything() -> None:
    assert plan_of(TEXT).changes_anything
    nothing = plan_of("d = Exp(x)")
    assert not nothing.changes_anything
    assert nothing.casts == ()
    assert make_plan(Graph((), (), ()), Policy()).paints == ()


def test_rules_that_match_nothing_are_told() -> None:
    plan = plan_of(f"deny name=^t$\nkeep scope=nowhere\nallow name=b attribute=U\nallow Lgamma\n{TEXT}")
    assert [rule.subject for rule in plan.idle_overrides] == ["scope='nowhere'", "name='b', attribute='U'"]


@pytest.mark.parametrize("strategy", ["grappler", "optimal"])
@pytest.mark.parametrize(("category", "paint"), [("infer", LOW), ("clear", LOW), ("keep", FULL), ("deny", FULL)])
def test_a_kind_that_is_put_on_a_list_is_treated_so(strategy: str, category: str, paint: Paint) -> None:
    graph, policy = parse([f"{category} Lgamma", "a = MatMul(x, w)", "t = Lgamma(a)", "b = MatMul(t, w)"])
    plan = make_plan(graph, replace(policy, strategy=strategy))
    (site,) = (site for site, kind in enumerate(graph.kinds) if kind == "Lgamma")
    assert plan.paints[site] is paint


def test_a_law_that_cannot_be_kept_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LAWS, "it is a Tuesday", lambda _scene, _paints: [0])
    with pytest.raises(
        PlanError, match=r"^a cannot be planned: it is a Tuesday, also after it was made to stay full\.$"
    ):
        plan_of(TEXT)


BROKEN: list[tuple[str, Sequence[Paint], dict[int, str]]] = [
    ("a = MatMul()\nillegal a", [LOW], {0: "its op is not defined for the 16-bit dtype"}),
    ("a = MatMul()\nkernelless a", [LOW], {0: "its device has no kernel for the 16-bit dtype"}),
    ("a = MatMul()\nillegal a\nkernelless a", [LOW], {0: "its op is not defined for the 16-bit dtype"}),
    ("a = MatMul()\nfrozen a: it is fetched", [LOW], {0: "its op must keep its types"}),
    ("a = Exp()", [LOW], {0: "its op is on the deny list"}),
    ("a = Lgamma()", [LOW], {0: "its op is on no list"}),
    ("a = Cast()\nconversion a", [LOW], {}),
    ("a = Cast()\nconversion a\nwhole a", [LOW], {0: "it needs values that the 16-bit dtype cannot hold"}),
    ("a = Lgamma()\nspread a", [LOW], {}),
    ("a = Relu()\nb = Relu()\nunanimous a b", [LOW, FULL], {0: "an op that must share its dtype stays float32"}),
    ("a = Relu()\nb = Relu()\nunanimous a follow b", [FULL, LOW], {1: "an op that must share its dtype stays float32"}),
    ("a = Relu()\nb = Relu()\nspread a b", [FULL, LOW], {1: "an op that must share its dtype stays float32"}),
    ("a = Relu()\nspread a: it escapes", [LOW], {0: "an op that must share its dtype stays float32"}),
    ("a = Relu()\nb = Relu()\nspread a b", [LOW, LOW], {}),
    ("a = Exp()\nb = MatMul()", [FULL, FULL], {}),
]


@pytest.mark.parametrize(("text", "paints", "expected"), BROKEN)
def test_the_laws_find_who_breaks_them(text: str, paints: Sequence[Paint], expected: dict[int, str]) -> None:
    assert offenders(PolicyView(*parse(text.splitlines())), paints) == expected


def test_the_laws_are_all_shown_above() -> None:
    assert {reason for *_, expected in BROKEN for reason in expected.values()} == LAWS.keys()


PRINT_PLANS = """
import json, sys
from mixdown.core import make_plan
from tests.goldens.language import parse
from tests.goldens.record import cases
print(json.dumps([make_plan(*parse(c.read_text().partition("\\n--\\n")[0].splitlines())).to_dict() for c in cases()]))
"""


def test_a_plan_that_breaks_a_law_cannot_be_made() -> None:
    plan = plan_of("a = MatMul()\nillegal a")
    with pytest.raises(PlanError, match="a cannot be planned like this: its op is not defined for the 16-bit dtype"):
        Plan(plan.view, ((Stroke(Paint.LOW, "seed"),),))


def test_plans_do_not_depend_on_the_hash_seed() -> None:
    root = str(Path(__file__).parents[2])
    outputs = set()
    for seed in ("0", "1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": root}
        done = subprocess.run(  # noqa: S603 - our own words
            [sys.executable, "-c", PRINT_PLANS], env=environment, capture_output=True, check=True
        )
        outputs.add(done.stdout)
    assert len(outputs) == 1
    assert len(json.loads(outputs.pop())) == len(cases())

"""Reports, policies, statistics and comparisons from anywhere: what is not sound is refused by name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.reliability.hostile_graphs import UGLY
from tests.reports.samples import sample

from mixdown import Policy
from mixdown.errors import MixdownError, PolicyError, ReportError
from mixdown.numerics.comparison import Compared, Comparison, Errors
from mixdown.numerics.range_statistics import Statistics
from mixdown.numerics.tally import MeasuredTensor
from mixdown.numerics.tally import Tally as Counted
from mixdown.reports import Report

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.reliability.conftest import Tally

EXAMPLES = 300
REPORT = sample()
ONE = Counted.from_vector([*[0] * 127, 3, *[0] * 128, *[3] * 5, *[0] * 4, 0x3F800000, 0x3F800000])
STATISTICS = Statistics("float16", 1, 1.0, (MeasuredTensor("gradient_tape/m", "MatMul", 0, "f", ONE),))
COMPARISON = Comparison((Compared("m", "MatMul", 0, "f", "float16", Errors(1.0)),), ())


def read_report(text: str) -> None:
    report = Report.from_json(text)
    assert Report.from_json(report.to_json()) == report
    str(report)


def read_statistics(text: str) -> None:
    found = Statistics.from_json(text)
    assert Statistics.from_json(found.to_json()) == found
    str(found)


def read_comparison(text: str) -> None:
    found = Comparison.from_json(text)
    assert Comparison.from_json(found.to_json()) == found
    str(found)


READERS: dict[str, tuple[str, Callable[[str], None], type[Exception]]] = {
    "report": (REPORT.to_json(), read_report, ReportError),
    "statistics": (STATISTICS.to_json(), read_statistics, MixdownError),
    "comparison": (COMPARISON.to_json(), read_comparison, MixdownError),
}

STRANGE: st.SearchStrategy[Any] = st.sampled_from(
    [
        None,
        True,
        -1,
        0,
        2**200,
        10**4000,
        1e308,
        float("nan"),
        float("inf"),
        "",
        UGLY,
        [],
        [[]],
        {},
        {"a": []},
        [1, "x"],
    ]
)


def places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every value in JSON data."""
    inner = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [path, *(found for key, value in inner for found in places(value, (*path, key)))]


def replaced(data: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    copy = data.copy()
    copy[path[0]] = replaced(copy[path[0]], path[1:], value)
    return copy


@st.composite
def mutations(draw: st.DrawFn, text: str) -> str:
    """A sound text with one value replaced, a part cut out, or a few characters changed."""
    match draw(st.sampled_from(["value", "cut", "characters"])):
        case "value":
            data = json.loads(text)
            path = draw(st.sampled_from(places(data)))
            return json.dumps(replaced(data, path, draw(STRANGE)))
        case "cut":
            start, stop = sorted(draw(st.tuples(*[st.integers(0, len(text))] * 2)))
            return text[:start] + text[stop:]
        case _:
            at = draw(st.integers(0, len(text) - 1))
            return text[:at] + draw(st.text(max_size=3)) + text[at + draw(st.integers(0, 3)) :]


@pytest.mark.parametrize("kind", READERS)
def test_whatever_is_read_is_sound_and_whatever_is_not_is_refused(kind: str, tally: Tally) -> None:
    text, read, refusal = READERS[kind]
    read(text)
    refused = 0

    @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(mutations(text))
    def law(mutated: str) -> None:
        nonlocal refused
        try:
            read(mutated)
        except refusal:
            refused += 1

    law()
    assert refused > EXAMPLES // 3
    tally("hostile inputs", EXAMPLES)


NESTED = {
    "lists": "[" * 100_000,
    "objects": '{"a":' * 100_000,
    "closed": "[" * 400 + "]" * 400,
    "deepish": "[" * 60 + "]" * 60,
}


@pytest.mark.parametrize("nested", NESTED)
@pytest.mark.parametrize("kind", READERS)
def test_deep_nesting_is_refused_wherever_it_stands(kind: str, nested: str, tally: Tally) -> None:
    text, read, refusal = READERS[kind]
    first = text.index(":") + 1
    for broken in (NESTED[nested], f"{text[:first]}{NESTED[nested]}{text[first:]}"):
        with pytest.raises(refusal, match="not JSON"):
            read(broken)
    tally("hostile inputs", 2)


BROKEN_POLICIES: dict[str, tuple[Any, str]] = {
    "nested": ("[" * 100_000, "nests more than 50 levels deep"),
    "text in bytes": ("\x00", "it is not JSON"),
    "a list": ("[]", "the policy should be an object."),
    "another setting": ({"colour": 1}, "the policy has no colour; it has low, "),
    "a list of lists": ({"custom_kinds": [[1]]}, "custom_kinds[0] of the policy should be text."),
    "a number as a kind": ({"custom_kinds": [1, "x"]}, "custom_kinds[0] of the policy should be text."),
    "a number as custom kinds": ({"custom_kinds": 7}, "custom_kinds of the policy should be a list."),
    "an object as dtype": ({"low": {"a": 1}}, "low of the policy should be text."),
    "a number as level": ({"level": 10**30}, "level of the policy should be one of default, "),
    "a bomb of a regular expression": ({"overrides": [{"category": "deny", "name": "(" * 5000 + ")" * 5000}]}, ""),
    "a large repetition": ({"overrides": [{"category": "deny", "name": "a{99999999999}"}]}, ""),
    "an override of a number": ({"overrides": [7]}, "overrides[0] of the policy should be an object."),
    "an ugly kind": ({"overrides": [{"category": "deny", "kind": UGLY}]}, "TensorFlow has no op kind"),
}


@pytest.mark.parametrize("case", BROKEN_POLICIES)
def test_a_broken_policy_is_refused(case: str, tmp_path: Path, tally: Tally) -> None:
    content, message = BROKEN_POLICIES[case]
    path = tmp_path / "policy.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    with pytest.raises(PolicyError) as refused:
        Policy.load(path)
    assert message in str(refused.value)
    tally("hostile inputs")


def test_a_mutated_policy_is_read_or_refused(tmp_path: Path, tally: Tally) -> None:
    path = tmp_path / "policy.json"
    policy = Policy().with_deny("MatMul", name="^a").with_keep(scope="b").with_custom("Own")
    text = policy.save(path).read_text("utf-8")

    @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(mutations(text))
    def law(mutated: str) -> None:
        path.write_text(mutated, "utf-8", errors="surrogatepass")
        try:
            found = Policy.load(path)
        except PolicyError:
            return
        found.save(path)
        assert Policy.load(path) == found

    law()
    tally("hostile inputs", EXAMPLES)


SCALER = {"name": "s", "loss_scale": 1, "steps": 1, "skipped_steps": 0}
MESSAGES: dict[str, tuple[dict[str, Any], str]] = {
    "another type": ({"title": 7}, "title of the report should be text"),
    "no number": ({"scalers": [SCALER | {"loss_scale": "x"}]}, r"scalers\[0\].loss_scale of the report should be"),
    "no whole number": ({"scalers": [SCALER | {"steps": 1.5}]}, r"scalers\[0\].steps of the report should be a whole"),
    "a truth": ({"scalers": [SCALER | {"steps": True}]}, r"scalers\[0\].steps of the report should be a whole number"),
    "too large": ({"scalers": [SCALER | {"steps": 2**128}]}, r"scalers\[0\].steps of the report should be a whole"),
    "a pair of three": (
        {"scalers": [SCALER | {"timeline": [[1, 2, 3]]}]},
        r"scalers\[0\].timeline\[0\] of the report should be a list of 2",
    ),
    "no object": ({"versions": []}, "versions of the report should be an object"),
    "a value of an object": ({"versions": {"a": 1}}, r"versions\['a'\] of the report should be text"),
    "a missing part": (
        {"graphs": [{"name": ""}]},
        r"graphs\[0\] of the report is incomplete: it has no kind, low, rewritten, reason",
    ),
}


@pytest.mark.parametrize("case", MESSAGES)
def test_a_broken_report_is_refused_with_the_place(case: str) -> None:
    change, message = MESSAGES[case]
    with pytest.raises(ReportError, match=message):
        Report.from_json(json.dumps({"schema": "mixdown-report/1", "title": "", **change}))


def dangling(**change: Any) -> str:
    data = json.loads(REPORT.to_json())
    graph = next(graph for graph in data["graphs"] if graph["casts"])
    for key, value in change.items():
        row = graph["casts"][0] if key == "op" else graph["ops"][0] if key == "inputs" else graph["ops"][0]["sites"][0]
        row[key] = value
    return json.dumps(data)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"op": 10**6}, "belongs to an op that is not there"),
        ({"op": -1}, "belongs to an op that is not there"),
        ({"inputs": [10**6]}, "points to an op that is not there"),
        ({"because": [0], "because_of": [99]}, "points to an op that is not there"),
        ({"because": [0], "because_of": []}, "points to an op that is not there"),
    ],
)
def test_a_report_that_points_nowhere_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ReportError, match=message):
        Report.from_json(dangling(**change))


TALLIES = {
    "an exponent too many": ({"histogram": {"256": 3}}, "counts numbers that do not exist"),
    "a boundary too few": ({"at_least": [1]}, "counts numbers that do not exist"),
    "less than none": ({"elements": 2, "histogram": {"127": 3, "3": -1}}, "counts more or fewer numbers"),
    "more than there are": ({"elements": 1}, "counts more or fewer numbers"),
    "a number too large": ({"largest_bits": 2**31}, "has a largest or smallest number that does not exist"),
    "the wrong way round": ({"smallest_bits": 0x7F000000}, "has a largest or smallest number that does not exist"),
}


@pytest.mark.parametrize("case", TALLIES)
def test_a_tally_that_nobody_counted_is_refused(case: str) -> None:
    change, message = TALLIES[case]
    data = json.loads(STATISTICS.to_json())
    data["tensors"][0]["tally"].update(change)
    with pytest.raises(MixdownError, match=message):
        Statistics.from_json(json.dumps(data))


@pytest.mark.parametrize("scale", [0, -1.0, 1e300, float("nan")])
def test_statistics_under_no_loss_scale_are_refused(scale: float) -> None:
    data = json.loads(STATISTICS.to_json()) | {"loss_scale": scale}
    with pytest.raises(MixdownError, match="is no loss scale"):
        Statistics.from_json(json.dumps(data))

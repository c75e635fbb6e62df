"""What tuning remembers: it comes back, and nothing that is damaged or hostile is used."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.goldens.language import parse

from mixdown import MixdownWarning, Policy
from mixdown.core import make_plan
from mixdown.core.policy import Level
from mixdown.tuning import memory
from mixdown.tuning.memory import Identity, Trial, Tuned, everything, fingerprint, place, recall, store

if TYPE_CHECKING:
    from pathlib import Path

POLICY = Policy(strategy="tuned", devices="all")
IDENTITY = Identity("train", "1234", "CPU", {"mixdown": "1"})
KEPT = replace(POLICY.untuned, level=Level.NOTHING)
FOUND = Tuned(*IDENTITY, "float32", KEPT, (Trial("float32", 6, 0.1, 1.0, 1.0, 1.0),))


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(memory.VARIABLE, str(tmp_path))


def test_what_is_stored_comes_back() -> None:
    assert recall(POLICY, IDENTITY) is None
    store(POLICY, FOUND)
    assert recall(POLICY, IDENTITY) == FOUND
    assert list(everything().values()) == [FOUND]
    assert [path.suffix for path in memory.folder().iterdir()] == [".json"]  # no draft is left


@pytest.mark.parametrize(
    "other",
    [
        IDENTITY._replace(graph="5678"),
        IDENTITY._replace(device="GPU"),
        IDENTITY._replace(versions={"mixdown": "2"}),
    ],
)
def test_another_function_device_or_version_has_a_file_of_its_own(other: Identity) -> None:
    store(POLICY, FOUND)
    assert recall(POLICY, other) is None
    assert recall(replace(POLICY, low="bfloat16"), IDENTITY) is None
    assert recall(POLICY, IDENTITY._replace(function="renamed")) == FOUND


def changed(**fields: Any) -> str:
    data = json.loads(place(POLICY, IDENTITY).read_text("utf-8"))
    return json.dumps({**data, **fields})


DAMAGES = {
    "empty": lambda: "",
    "cut off": lambda: changed()[:200],
    "no JSON": lambda: "{",
    "a list": lambda: "[]",
    "null": lambda: "null",
    "nested deeply": lambda: "[" * 100_000,
    "too large": lambda: " " * 1_000_001,
    "another schema": lambda: changed(schema="mixdown-tuned/0"),
    "no schema": lambda: changed(schema=None),
    "an unknown field": lambda: changed(more=1),
    "a field of another type": lambda: changed(kept=7),
    "no policy": lambda: changed(policy=None),
    "an unknown kind": lambda: changed(policy={"overrides": [{"category": "barrier", "kind": "Nonsense"}]}),
    "an unknown strategy": lambda: changed(policy={"strategy": "fast"}),
    "a policy that allows more": lambda: changed(policy=POLICY.untuned.with_allow("Softmax").to_dict()),
    "a policy for other devices": lambda: changed(policy=replace(POLICY.untuned, devices=("TPU",)).to_dict()),
    "an expression that never ends": lambda: changed(policy=POLICY.untuned.with_keep(name="(a+)+$").to_dict()),
    "a trial without numbers": lambda: changed(trials=[{"name": "x"}]),
    "a number that is none": lambda: changed(trials=[{**json.loads(changed())["trials"][0], "seconds": "1"}]),
    "versions that are none": lambda: changed(versions=[1]),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_refused_in_one_line_and_written_anew(damage: str) -> None:
    store(POLICY, FOUND)
    place(POLICY, IDENTITY).write_text(DAMAGES[damage](), "utf-8")
    with pytest.warns(MixdownWarning, match="is not used, and the function is tuned again: ") as told:
        assert recall(POLICY, IDENTITY) is None
    assert [len(str(each.message).splitlines()) for each in told] == [1]
    store(POLICY, FOUND)
    assert recall(POLICY, IDENTITY) == FOUND


def test_bytes_that_are_no_text_are_refused() -> None:
    store(POLICY, FOUND)
    place(POLICY, IDENTITY).write_bytes(b"\xff\xfe\x00")
    with pytest.warns(MixdownWarning, match="is not used"):
        assert recall(POLICY, IDENTITY) is None
    assert isinstance(next(iter(everything().values())), str)


def test_there_are_twenty_sorts_of_damage() -> None:
    assert len(DAMAGES) == 20


def test_a_folder_that_cannot_be_written_to_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(memory.VARIABLE, str(tmp_path / "file"))
    with pytest.warns(MixdownWarning, match="What tuning found out is not remembered: "):
        store(POLICY, FOUND)


def test_a_choice_that_the_policy_holds_needs_no_file_and_suits_any_device() -> None:
    frozen = replace(POLICY, choices=(("1234", KEPT), ("5678", POLICY.untuned.with_allow("Softmax"))))
    found = recall(frozen, IDENTITY._replace(device="another", versions={}))
    assert found is not None
    assert found.policy == KEPT
    assert recall(frozen, IDENTITY._replace(graph="5678")) is None  # no candidate of the policy


@pytest.mark.parametrize(
    ("platform", "variables", "end"),
    [
        ("linux", {"XDG_CACHE_HOME": "/x"}, "/x/mixdown/tuned"),
        ("linux", {}, "/home/me/.cache/mixdown/tuned"),
        ("darwin", {}, "/home/me/Library/Caches/mixdown/tuned"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/mixdown/tuned"),
        ("linux", {"MIXDOWN_CACHE": "/own"}, "/own/tuned"),
    ],
)
def test_files_go_to_the_users_cache_folder(
    platform: str, variables: dict[str, str], end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setenv("HOME", "/home/me")
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA", "MIXDOWN_CACHE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert str(memory.folder()) == end


def test_a_fingerprint_depends_on_the_graph_and_on_what_is_fetched() -> None:
    def of(*lines: str) -> str:
        return fingerprint(make_plan(*parse(lines)))

    plain = of("a = MatMul(x, w)", "r = Relu(a)")
    assert plain == of("a = MatMul(x, w)", "r = Relu(a)")
    others = (
        of("a = MatMul(x, w)", "r = Tanh(a)"),
        of("a = MatMul(x, w)", "s = Relu(a)"),
        of("a = MatMul(x, w)", "r = Relu(x)"),
        of("a = MatMul(x, w)", "r = Relu(a)", "compiled"),
        of("a = MatMul(x, w)", "r = Relu(a)", "shape x 7 7"),
        of("a = MatMul(x, w)", "r = Relu(a)", "work a 5"),
    )
    assert len({plain, *others}) == 7
    plan = make_plan(*parse(["a = MatMul(x, w)"]))
    assert fingerprint(plan, "loss") != fingerprint(plan)


def test_the_line_for_the_log_says_what_was_kept_and_what_that_gains() -> None:
    assert str(FOUND) == "kept float32: nothing was faster"
    trials = (*FOUND.trials, Trial("float16 products, float32 convolutions", 6, 0.1, 0.8, 0.83, 0.9))
    gained = replace(FOUND, kept="float16 products, float32 convolutions", trials=trials)
    assert str(gained) == "kept float16 products, float32 convolutions: 0.83 of float32"

"""A conversion that fails or is killed leaves the destination absent or complete."""

import multiprocessing
import random
import threading
import time
from pathlib import Path

import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

import mixdown
from mixdown.tensorflow.convert.staging import SUFFIX, staged

FRESH = multiprocessing.get_context("forkserver")
FRESH.set_forkserver_preload(["mixdown.tensorflow.convert"])  # TensorFlow is imported once, not at every attempt
ATTEMPTS = 12


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with enough weights that writing it takes a while."""
    folder = tmp_path_factory.mktemp("staging") / "saved"
    model = tf.Module()
    model.kernels = [tf.Variable(tf.random.stateless_normal([512, 512], [index, 0]) / 32) for index in range(8)]

    @tf.function(input_signature=[tf.TensorSpec([None, 512])])
    def call(x: tf.Tensor) -> tf.Tensor:
        for kernel in model.kernels:
            x = tf.nn.relu(x @ kernel)
        return x

    model.call = call
    tf.saved_model.save(model, str(folder))
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """All files but those that hold a random id."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "fingerprint.pb")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def convert(saved: Path, target: Path, low: str) -> None:
    policy = mixdown.Policy(low=low, devices="all")
    mixdown.convert_saved_model(saved, target, policy, weights="low", overwrite=True)


def killed_at(moment: float, saved: Path, target: Path, low: str) -> bool:
    """Start a conversion and kill it; whether it was still at work."""
    process = FRESH.Process(target=convert, args=(saved, target, low))
    process.start()
    process.join(moment)
    alive = process.is_alive()
    process.kill()
    process.join()
    return alive


@pytest.fixture(scope="module")
def complete(saved: Path) -> tuple[dict[str, bytes], float]:
    """What a conversion writes, and how long it takes in a process of its own, once the server runs."""
    target = saved.with_name("complete")
    killed_at(600, saved, target, "float16")
    start = time.monotonic()
    killed_at(600, saved, target, "float16")
    return contents(target), time.monotonic() - start


def test_killed_at_any_moment_the_destination_is_absent_or_complete(
    saved: Path, complete: tuple[dict[str, bytes], float], tmp_path: Path
) -> None:
    whole, duration = complete
    moments = random.Random(7)  # noqa: S311 - no secret
    killed = attempt = 0
    while killed < ATTEMPTS:  # one that is through already does not count: a machine's pace changes
        attempt += 1
        assert attempt <= 5 * ATTEMPTS
        target = tmp_path / f"{attempt}"
        killed += killed_at(moments.uniform(0, duration), saved, target, "float16")
        assert not target.exists() or contents(target) == whole


def test_killed_while_it_overwrites_the_destination_is_the_old_or_the_new(
    saved: Path, complete: tuple[dict[str, bytes], float], tmp_path: Path
) -> None:
    whole, duration = complete
    target = tmp_path / "target"
    convert(saved, target, "bfloat16")
    old = contents(target)
    for part in (0.5, 0.8, 0.95, 1.0):
        killed_at(part * duration, saved, target, "float16")
        assert contents(target) in (old, whole)


def test_while_a_folder_is_overwritten_there_is_always_one(tmp_path: Path) -> None:
    target, absent, done = tmp_path / "target", [], threading.Event()
    (target / "0").mkdir(parents=True)

    def watch() -> None:
        while not done.is_set():
            if not target.exists():
                absent.append(time.monotonic())

    watcher = threading.Thread(target=watch)
    watcher.start()
    for number in range(40):
        with staged(target, overwrite=True) as folder:
            (folder / "target" / str(number)).mkdir(parents=True)
    done.set()
    watcher.join()
    assert absent == []


def test_the_next_conversion_removes_what_a_killed_one_left(saved: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    process = FRESH.Process(target=convert, args=(saved, target, "float16"))
    process.start()
    while process.is_alive() and not left_in(tmp_path):
        time.sleep(0.001)
    process.kill()
    process.join()
    assert len(left_in(tmp_path)) == 1
    convert(saved, target, "float16")
    assert [path.name for path in tmp_path.iterdir()] == ["target"]


def left_in(folder: Path) -> list[Path]:
    """What conversions to `target` have begun to write."""
    return list(folder.glob(f".target.*{SUFFIX}"))


def test_a_conversion_at_work_is_not_disturbed_by_another(tmp_path: Path) -> None:
    target = tmp_path / "target"
    with staged(target, overwrite=False) as one:
        (one / "target").write_text("one", "utf-8")
        with staged(target, overwrite=False) as two:
            (two / "target").write_text("two", "utf-8")
        assert target.read_text("utf-8") == "two"
        assert one.exists()
    assert target.read_text("utf-8") == "one"


def fail_halfway(target: Path) -> None:
    with staged(target, overwrite=True) as folder:
        (folder / "target").write_text("half", "utf-8")
        raise KeyboardInterrupt


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_failure_leaves_what_was_there(kind: str, tmp_path: Path) -> None:
    target = tmp_path / "target"
    made = target if kind == "file" else target / "file"
    made.parent.mkdir(exist_ok=True)
    made.write_text("old", "utf-8")
    with pytest.raises(KeyboardInterrupt):
        fail_halfway(target)
    assert made.read_text("utf-8") == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["target"]


@pytest.mark.parametrize("exchange", [True, False], ids=["at once", "in two steps"])
def test_a_folder_takes_the_place_of_another(exchange: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: FBT001 - a parameter
    if not exchange:
        monkeypatch.setattr("ctypes.CDLL", lambda _name: object())  # a system that cannot
    target = tmp_path / "target"
    (target / "old").mkdir(parents=True)
    with staged(target, overwrite=True) as folder:
        (folder / "target" / "new").mkdir(parents=True)
        (folder / "beside").write_text("beside", "utf-8")
    assert [path.name for path in target.iterdir()] == ["new"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["beside", "target"]


def test_a_complete_destination_loads(saved: Path, complete: tuple[dict[str, bytes], float]) -> None:
    assert set(complete[0]) >= {"saved_model.pb", "variables/variables.index", "assets.extra/mixdown-report.html"}
    saved_model_pb2.SavedModel.FromString(complete[0]["saved_model.pb"])
    assert tf.saved_model.load(str(saved.with_name("complete"))).kernels[0].dtype == tf.float16

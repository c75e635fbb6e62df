"""Destinations and data files that are not what they seem: nothing else is read, written or removed."""

from __future__ import annotations

import json
import struct
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.reliability.hostile_graphs import plain

import mixdown
from mixdown.cli import demo_data

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.reliability.conftest import Tally

EVERYWHERE = mixdown.Policy(devices="all")


@pytest.fixture
def frozen(tmp_path: Path) -> Path:
    path = tmp_path / "frozen.pb"
    path.write_bytes(plain().SerializeToString())
    return path


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "precious").write_text("precious", "utf-8")
    return folder


def kept(outside: Path) -> bool:
    return [(path.name, path.read_text("utf-8")) for path in outside.iterdir()] == [("precious", "precious")]


@pytest.mark.parametrize("target", ["precious", "", "new"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_link_at_the_destination_is_replaced_or_refused_never_followed(
    target: str, frozen: Path, outside: Path, tally: Tally, *, overwrite: bool
) -> None:
    destination = frozen.with_name("destination.pb")
    destination.symlink_to(outside / target)
    if (outside / target).exists() and not overwrite:
        with pytest.raises(mixdown.MixdownError, match="exists already"):
            mixdown.convert_saved_model(frozen, destination, EVERYWHERE)
        assert destination.is_symlink()
    else:
        mixdown.convert_saved_model(frozen, destination, EVERYWHERE, overwrite=overwrite)
        assert destination.is_file()
        assert not destination.is_symlink()
    assert kept(outside)
    tally("hostile inputs")


def test_links_where_the_report_goes_are_replaced(frozen: Path, outside: Path) -> None:
    destination = frozen.with_name("destination.pb")
    for ending in ("html", "json"):
        frozen.with_name(f"destination.pb.mixdown-report.{ending}").symlink_to(outside / "precious")
    done = mixdown.convert_saved_model(frozen, destination, EVERYWHERE)
    assert kept(outside)
    assert not done.page.is_symlink()


def test_a_leftover_that_is_a_link_is_not_followed(frozen: Path, outside: Path) -> None:
    frozen.with_name(".destination.pb.old.mixdown-partial").symlink_to(outside)
    mixdown.convert_saved_model(frozen, frozen.with_name("destination.pb"), EVERYWHERE)
    assert kept(outside)


def test_a_destination_with_wildcards_removes_no_other_leftovers(frozen: Path) -> None:
    other = frozen.with_name(".model.x.mixdown-partial")
    other.mkdir()
    mixdown.convert_saved_model(frozen, frozen.with_name("*"), EVERYWHERE)
    assert other.is_dir()
    assert frozen.with_name("*").is_file()


@pytest.mark.parametrize("name", ["a" * 300, "../" * 2000 + "x", "nul\x00byte"])
def test_a_name_that_no_file_can_have_is_refused(name: str, frozen: Path, tally: Tally) -> None:
    for start in (
        lambda: mixdown.explain(frozen.parent / name),
        lambda: mixdown.convert_saved_model(frozen.parent / name, frozen.with_name("out.pb")),
    ):
        with pytest.raises(mixdown.MixdownError, match=r"There is no (file|model at) "):
            start()
    tally("hostile inputs", 2)


def test_a_destination_that_cannot_be_written_is_refused(frozen: Path) -> None:
    frozen.with_name("file").write_bytes(b"")
    with pytest.raises(mixdown.MixdownError, match=r"destination.pb' cannot be written: .*Not a directory"):
        mixdown.convert_saved_model(frozen, frozen.with_name("file") / "folder" / "destination.pb", EVERYWHERE)


def header(shape: tuple[int, ...], dtype: str = "<f4") -> bytes:
    """The beginning of an .npy file."""
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape!r}, }}".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def archive(path: Path, **members: bytes) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in members.items():
            made.writestr(f"{name}.npy", content)


def arrays(path: Path, **change: Any) -> None:
    images, labels = np.ones((4, 8, 8)), np.arange(4)
    sound = {"x_train": images, "y_train": labels, "x_test": images, "y_test": labels}
    np.savez(path, **{**sound, **change})


def cut(path: Path) -> None:
    arrays(path)
    path.write_bytes(path.read_bytes()[:200])


PICKLE = b"cos\nsystem\n(S'touch canary'\ntR."
CODE = b"\x93NUMPY\x01\x00\x2b\x00" + b"__import__('os').system('touch canary')".ljust(0x2B)
BROKEN: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "noise": lambda path: path.write_bytes(b"\xff" * 1000),
    "json": lambda path: path.write_text(json.dumps({}), "utf-8"),
    "cut": cut,
    "no arrays": archive,
    "terabytes declared": lambda path: archive(path, **dict.fromkeys(demo_data.ARRAYS, header((2**40,)))),
    "objects": lambda path: arrays(path, x_train=np.array([{"a": 1}], object)),
    "objects declared": lambda path: archive(path, **dict.fromkeys(demo_data.ARRAYS, header((1,), "|O") + PICKLE)),
    "code in the header": lambda path: archive(path, **dict.fromkeys(demo_data.ARRAYS, CODE)),
    "text": lambda path: arrays(path, x_train=np.array(["a", "b"])),
    "no images": lambda path: arrays(path, x_train=np.ones((0, 8, 8)), y_train=np.ones(0)),
    "no labels": lambda path: arrays(path, y_train=np.ones(3)),
    "numbers without dimensions": lambda path: arrays(path, x_train=np.ones(())),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_data_file_is_refused_and_nothing_in_it_is_run(
    case: str, tmp_path: Path, tally: Tally, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "data.npz"
    BROKEN[case](path)
    with pytest.raises(mixdown.MixdownError, match=r"must be an .npz file with the arrays x_train, y_train"):
        demo_data.load(str(path))
    assert [found.name for found in tmp_path.iterdir()] == ["data.npz"]
    tally("hostile inputs")


def test_a_data_file_that_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "data.npz"
    arrays(path)
    monkeypatch.setattr(demo_data, "LARGEST", 1000)
    with pytest.raises(mixdown.MixdownError, match=r"unpacked it has [0-9]+ bytes, more than 1000"):
        demo_data.load(str(path))


def test_a_sound_data_file_is_read(tmp_path: Path) -> None:
    arrays(tmp_path / "data.npz")
    assert demo_data.load(str(tmp_path / "data.npz")).x_train.shape == (4, 8, 8, 1)

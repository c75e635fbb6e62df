"""The figures on the page of peers: differences seed by seed, and what is said of data that is missing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from benchmarks import peer_models, peers

ACCURACIES = [0.90, 0.91, 0.92, 0.93, 0.94, 0.95, 0.96, 0.97, 0.98, 0.99]


def test_a_tool_that_learns_the_same_differs_by_nothing_however_far_the_seeds_are_apart() -> None:
    assert peers.difference(ACCURACIES, ACCURACIES) == "+0.00 (+0.00 to +0.00)"


def test_a_difference_is_paired_by_seed_and_has_students_interval() -> None:
    every_other = [each + (0.01 if number % 2 else 0.0) for number, each in enumerate(ACCURACIES)]
    # ten differences, half 0 and half 1: mean 0.5, deviation 0.527, 2.262 * 0.527 / sqrt(10) = 0.377
    assert peers.difference(every_other, ACCURACIES) == "+0.50 (+0.12 to +0.88)"
    assert peers.difference(every_other[::-1], ACCURACIES) != peers.difference(every_other, ACCURACIES)


def test_only_data_that_is_installed_is_learned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(peer_models, "FASHION", tmp_path / "missing")
    assert list(peer_models.data()) == ["digits"]


def test_the_test_set_is_not_trained_on() -> None:
    digits = peer_models.digits()
    trained = {row.tobytes() for row in digits.x}
    assert len(digits.x) + len(digits.test_x) == 1797
    assert sum(row.tobytes() in trained for row in digits.test_x) < 5  # scikit-learn has some digits twice


@pytest.mark.skipif(not peer_models.FASHION.exists(), reason="needs Debian's package dataset-fashion-mnist")
def test_fashion_mnist_is_read_at_half_size() -> None:
    pictures = peer_models.fashion()
    assert pictures.x.shape == (6000, 196)
    assert pictures.test_x.shape == (10_000, 196)
    assert pictures.test_x.min() == 0.0
    assert 0.5 < pictures.test_x.max() <= 1.0
    assert set(pictures.y) == set(pictures.test_y) == set(range(10))


def test_the_page_has_ten_seeds_and_an_interval_for_every_tool() -> None:
    page = peers.PAGE.read_text("utf-8").partition("## What they learn")[2].partition("\n## ")[0]
    assert "from 10 seeds" in page
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith(("| digits", "| Fashion-MNIST"))]
    assert len(rows) >= len(peer_models.MODELS)
    interval = re.compile(r"[+-]\d+\.\d\d \([+-]\d+\.\d\d to [+-]\d+\.\d\d\)")
    assert [row for row in rows if len([cell for cell in row if interval.match(cell)]) != len(peers.SCALERS)] == []

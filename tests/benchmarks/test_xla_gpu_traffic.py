"""Bytes at kernel boundaries, counted by hand on small modules in XLA's own notation."""

from __future__ import annotations

import pytest
from benchmarks.xla_gpu.hlo_text import parse
from benchmarks.xla_gpu.traffic import kernels

MODULE = """HloModule step, is_scheduled=true, entry_computation_layout={(f32[8,4]{1,0})->f16[8,4]{1,0}}

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}

%fused (p: f32[8,4], q: f32[100,4]) -> (f16[8,4], f32[8]) {
  %p = f32[8,4]{1,0} parameter(0)
  %q = f32[100,4]{1,0} parameter(1)
  %part = f32[8,4]{1,0} slice(%q), slice={[0:8], [0:4]}
  %both = f32[8,4]{1,0} add(%p, %part)
  %zero = f32[] constant(0)
  %rows = f32[8]{0} reduce(%both, %zero), dimensions={1}, to_apply=%add
  %low = f16[8,4]{1,0} convert(%both)
  ROOT %out = (f16[8,4]{1,0}, /*index=1*/f32[8]{0}) tuple(%low, %rows)
}

%lone (p.1: f32[4,4]) -> f16[4,4] {
  %p.1 = f32[4,4]{1,0} parameter(0)
  ROOT %low.1 = f16[4,4]{1,0} convert(%p.1)
}

ENTRY %main (x: f32[8,4], table: f32[100,4], w: f32[4,4]) -> f16[8,4] {
  %x = f32[8,4]{1,0} parameter(0), metadata={op_name="x"}
  %table = f32[100,4]{1,0} parameter(1)
  %w = f32[4,4]{1,0} parameter(2)
  %fusion = (f16[8,4]{1,0}, f32[8]{0}) fusion(%x, %table), kind=kInput, calls=%fused
  %left = f16[8,4]{1,0} get-tuple-element(%fusion), index=0
  %right = f16[4,4]{1,0} fusion(%w), kind=kLoop, calls=%lone
  %product = (f16[8,4]{1,0}, s8[4096]{0}) custom-call(%left, %right), custom_call_target="__cublas$gemm"
  ROOT %result = f16[8,4]{1,0} get-tuple-element(%product), index=0
}
"""


def test_a_kernel_reads_its_operands_once_and_writes_its_results() -> None:
    fusion, cast, product = kernels(parse(MODULE))
    assert (fusion.read, fusion.written) == (2 * 8 * 4 * 4, 8 * 4 * 2 + 8 * 4)  # of the table only the slice is read
    assert (cast.read, cast.written) == (64, 32)
    assert (product.read, product.written) == (64 + 32, 64)  # without the library's scratch space
    assert product.kind == "__cublas$gemm"


def test_a_cast_is_told_apart_by_whether_its_kernel_does_anything_else() -> None:
    found = kernels(parse(MODULE))
    assert [kernel.casts for kernel in found] == [1, 1, 0]
    assert [kernel.only_casts for kernel in found] == [False, True, False]


def test_an_operand_that_is_used_twice_is_read_once() -> None:
    text = MODULE.replace("custom-call(%left, %right)", "custom-call(%left, %right, %left)")
    assert kernels(parse(text))[2].read == kernels(parse(MODULE))[2].read


def test_the_body_of_a_loop_counts_and_its_condition_does_not() -> None:
    text = """HloModule loop

%body (s: (f32[4])) -> (f32[4]) {
  %s = (f32[4]{0}) parameter(0)
  %v = f32[4]{0} get-tuple-element(%s), index=0
  %n = f32[4]{0} negate(%v)
  ROOT %t = (f32[4]{0}) tuple(%n)
}

%condition (s.1: (f32[4])) -> pred[] {
  %s.1 = (f32[4]{0}) parameter(0)
  ROOT %go = pred[] custom-call(), custom_call_target="go"
}

ENTRY %main (x: (f32[4])) -> (f32[4]) {
  %x = (f32[4]{0}) parameter(0)
  ROOT %w = (f32[4]{0}) while(%x), condition=%condition, body=%body
}
"""
    assert [(kernel.name, kernel.size) for kernel in kernels(parse(text))] == [("n", 32)]


@pytest.mark.parametrize(
    ("dtype", "size"), [("pred", 6), ("s4", 6), ("f16", 12), ("bf16", 12), ("f32", 24), ("c64", 48)]
)
def test_an_array_has_the_bytes_of_its_type(dtype: str, size: int) -> None:
    text = f"ENTRY %main (x: {dtype}[2,3]) -> {dtype}[2,3] {{\n  ROOT %x = {dtype}[2,3]{{1,0}} parameter(0)\n}}\n"
    assert parse(text).computations["main"][0].size == size


def test_text_without_an_entry_is_refused() -> None:
    with pytest.raises(ValueError, match=r"This is no HLO module: it has no ENTRY computation\."):
        parse("HloModule nothing")

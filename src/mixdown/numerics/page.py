"""The HTML page of statistics, with a histogram of every tensor, drawn as SVG: `statistics_page`.

It needs neither network nor script. Bars are powers of two; bands mark what float16 flushes to zero, holds with fewer
digits, and cannot hold.
"""

from collections import Counter
from collections.abc import Sequence
from html import escape
from math import log2

from mixdown.numerics.scale import ScaleAdvice
from mixdown.numerics.tally import LOSSES, MeasuredTensor, Tally, percent
from mixdown.rules.formats import FORMATS

LEFTMOST, RIGHTMOST = -50, 24
"""The powers of two that a histogram shows; what lies outside is added to its ends."""

BAR, HEIGHT = 6, 60
BANDS = (("flushed", LEFTMOST, -25), ("subnormal", -25, -14), ("overflowed", 16, RIGHTMOST + 1))

STYLE = """
body{font:14px/1.4 system-ui,sans-serif;margin:2em;color:#222;background:#fff}
table{border-collapse:collapse}
td,th{padding:.2em .8em;text-align:right;border-bottom:1px solid #ddd;vertical-align:bottom}
td:first-child,th:first-child{text-align:left;font-family:ui-monospace,monospace;max-width:32em;overflow-wrap:anywhere}
thead th{position:sticky;top:0;background:#fff}
svg{display:block}.bar{fill:#3465a4}.axis{stroke:#888}
.flushed{fill:#f6c6c6}.subnormal{fill:#fbeecb}.overflowed{fill:#f3b0b0}
.lost{color:#a40000;font-weight:600}
@media(prefers-color-scheme:dark){body,thead th{background:#1c1c1c;color:#ddd}.bar{fill:#729fcf}
.flushed{fill:#5c2020}.subnormal{fill:#4d431f}.overflowed{fill:#6b1f1f}}
"""


def statistics_page(low: str, steps: int, tensors: Sequence[MeasuredTensor], scale: ScaleAdvice | None) -> str:
    """The page as HTML text."""
    title = f"Numbers that become {escape(low)}"
    rows = "\n".join(map(_row, tensors))
    losses = "".join(f"<th>{name}<br>{loss}</th>" for name in FORMATS for loss in LOSSES)
    advice = f"<p>{escape(str(scale))}</p>" if scale else ""
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>{STYLE}</style></head><body>
<h1>{title}</h1>
<p>{len(tensors)} tensors, {steps} steps, measured in float32. A bar is a power of two from
2<sup>{LEFTMOST}</sup> to 2<sup>{RIGHTMOST}</sup>; the shaded parts are what float16 turns into zero (left), holds with
fewer digits, and cannot hold (right).</p>
{advice}
<table><thead><tr><th>tensor</th><th>histogram</th><th>elements</th><th>zeros</th><th>max abs</th><th>min nonzero</th>
{losses}</tr></thead><tbody>
{rows}
</tbody></table></body></html>
"""


def _row(each: MeasuredTensor) -> str:
    tally = each.tally
    smallest = "-" if tally.min_nonzero is None else f"{tally.min_nonzero:.3g}"
    cells = [f"{tally.elements}", percent(tally.share(tally.zeros)), f"{tally.max_abs:.3g}", smallest]
    plain = "".join(f"<td>{cell}</td>" for cell in cells)
    counts = [n for low in FORMATS for n in vars(tally.losses(low)).values()]
    marked = (' class="lost"' if n else "" for n in counts)
    lost = "".join(f"<td{mark}>{percent(tally.share(n))}</td>" for mark, n in zip(marked, counts, strict=True))
    name = f"{escape(each.name)}<br><small>{escape(each.kind)}{' (gradient)' if each.gradient else ''}</small>"
    return f"<tr><td>{name}</td><td>{histogram(tally)}</td>{plain}{lost}</tr>"


def histogram(tally: Tally) -> str:
    """The powers of two of a tensor's numbers as SVG; heights are logarithms of counts."""
    width = (RIGHTMOST - LEFTMOST + 1) * BAR
    bands = "".join(
        f'<rect class="{name}" x="{(low - LEFTMOST) * BAR}" y="0" width="{(high - low) * BAR}" height="{HEIGHT}"/>'
        for name, low, high in BANDS
    )
    counts: Counter[int] = Counter()
    for exponent, count in tally.exponents.items():
        counts[min(max(exponent, LEFTMOST), RIGHTMOST)] += count
    bars = "".join(_bar(exponent, count, tally.elements) for exponent, count in sorted(counts.items()))
    axis = f'<line class="axis" x1="0" y1="{HEIGHT}" x2="{width}" y2="{HEIGHT}"/>'
    return f'<svg width="{width // 2}" height="{HEIGHT // 2}" viewBox="0 0 {width} {HEIGHT}">{bands}{bars}{axis}</svg>'


def _bar(exponent: int, count: int, elements: int) -> str:
    height = max(2, round(HEIGHT * log2(1 + count) / log2(1 + elements)))
    x, y = (exponent - LEFTMOST) * BAR, HEIGHT - height
    tip = f"<title>2^{exponent}: {count}</title>"
    return f'<rect class="bar" x="{x}" y="{y}" width="{BAR - 1}" height="{height}">{tip}</rect>'

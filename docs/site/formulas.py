"""Formulas as MathML, which browsers draw by themselves: the site needs no script and no font for them."""

import html
import re

from latex2mathml.converter import convert

INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
BLOCK = re.compile(r'<div class="arithmatex">\\\[(.*?)\\\]</div>', re.DOTALL)
NUMBER = re.compile(r"\\tag\{([^}]+)\}")
UNKNOWN = re.compile(r"\\[A-Za-z]+")
SAME = {r"\cr": r"\\", "{aligned}": "{align*}"}  # what the converter knows by another name
PRIME = re.compile(r"<msup>(<mi[^>]*>\w+</mi>)<m[io][^>]*>&#x0*2032;</m[io]></msup>")


def draw_formulas(page: str) -> str:
    """Return the HTML of a page with its formulas, which arithmatex has marked, as MathML."""
    page = BLOCK.sub(_draw_block, page)
    return INLINE.sub(lambda found: _draw(html.unescape(found.group(1)), "inline"), page)


def _draw_block(found: re.Match[str]) -> str:
    formula = html.unescape(found.group(1))
    number = NUMBER.search(formula)
    said = f'<span class="formula-number">({number.group(1)})</span>' if number else ""
    return f'<div class="formula">{_draw(NUMBER.sub("", formula), "block")}{said}</div>'


def _draw(formula: str, display: str) -> str:
    for ours, theirs in SAME.items():
        formula = formula.replace(ours, theirs)
    drawn = convert(formula.strip(), display=display)
    drawn = PRIME.sub(r'\1<mo lspace="0" rspace="0">&#x2032;</mo>', drawn)  # the sign is raised by itself
    if unknown := UNKNOWN.search(drawn):
        raise ValueError(f"{unknown.group()} cannot be drawn, in the formula {formula.strip()}")
    return drawn

# Line charts on logarithmic axes as SVG: the charts of docs/performance.md.
# May know: numbers, labels, SVG.  Must not know: benchmarks.
# Python's standard library alone; the same numbers give the same bytes.

import math
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 460, 340
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 34, 46
# Okabe & Ito: told apart by colour-blind eyes.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
GREY = "#777777"


class Series:
    """Points (x, y); dashed for a guide, line=False for points alone."""

    def __init__(self, name, points, dashed=False, line=True):
        self.name, self.points, self.dashed, self.line = name, points, dashed, line


class Panel:

    def __init__(self, title, x_label, y_label, series, x_base=10, y_base=10, legend_below=False):
        self.title, self.x_label, self.y_label, self.series = title, x_label, y_label, series
        self.x_base, self.y_base, self.legend_below = x_base, y_base, legend_below


def number(value):
    if value >= 1e9 and value % 1e9 == 0:
        return f"{value / 1e9:g}G"
    return f"{value:g}"


def ticks(low, high, base):
    first, last = math.floor(math.log(low, base) + 1e-9), math.ceil(math.log(high, base) - 1e-9)
    step = max(1, (last - first) // 8)
    return [float(base)**e for e in range(first, max(last, first + 1) + 1, step)]


class Axis:
    """From values to pixels, logarithmically."""

    def __init__(self, values, base, begin, end):
        self.ticks = ticks(min(values), max(values), base)
        self.low, self.high = math.log(self.ticks[0]), math.log(max(self.ticks[-1], max(values)))
        self.begin, self.end = begin, end

    def at(self, value):
        return round(self.begin + (math.log(value) - self.low) / (self.high - self.low) * (self.end - self.begin), 1)


def text(x, y, content, anchor="middle", size=11, colour="#222222", extra=""):
    return (f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-size="{size}" fill="{colour}"{extra}>'
            f'{escape(content)}</text>')


def draw_axes(panel, x, y):
    out = [f'<rect x="{LEFT}" y="{TOP}" width="{WIDTH - LEFT - RIGHT}" height="{HEIGHT - TOP - BOTTOM}" fill="none" '
           f'stroke="{GREY}"/>']
    for value in x.ticks:
        at = x.at(value)
        out.append(f'<path d="M{at} {TOP}V{HEIGHT - BOTTOM}" stroke="#dddddd"/>')
        out.append(text(at, HEIGHT - BOTTOM + 15, number(value)))
    for value in y.ticks:
        at = y.at(value)
        out.append(f'<path d="M{LEFT} {at}H{WIDTH - RIGHT}" stroke="#dddddd"/>')
        out.append(text(LEFT - 6, at + 4, number(value), "end"))
    out.append(text(WIDTH / 2, 20, panel.title, size=13))
    out.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, panel.x_label))
    middle = (TOP + HEIGHT - BOTTOM) / 2
    out.append(text(14, middle, panel.y_label, extra=f' transform="rotate(-90 14 {middle})"'))
    return out


def draw_series(series, colour, x, y):
    out = []
    at = [(x.at(px), y.at(py)) for px, py in series.points]
    if series.line:
        dash = ' stroke-dasharray="5 4"' if series.dashed else ""
        path = "L".join(f"{px} {py}" for px, py in at)
        out.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.8"{dash}/>')
    if not series.dashed:
        out += [f'<circle cx="{px}" cy="{py}" r="3" fill="{colour}"/>' for px, py in at]
    return out


def draw_panel(panel):
    points = [point for series in panel.series for point in series.points]
    x = Axis([p[0] for p in points], panel.x_base, LEFT, WIDTH - RIGHT)
    y = Axis([p[1] for p in points], panel.y_base, HEIGHT - BOTTOM, TOP)
    out = draw_axes(panel, x, y)
    for i, series in enumerate(panel.series):
        colour = GREY if series.dashed else COLOURS[i % len(COLOURS)]
        out += draw_series(series, colour, x, y)
        at = (HEIGHT - BOTTOM - 15 * len(panel.series) + 6 if panel.legend_below else TOP + 16) + 15 * i
        dash = ' stroke-dasharray="5 4"' if series.dashed else ""
        out.append(f'<path d="M{LEFT + 8} {at - 4}h18" stroke="{colour}" stroke-width="2"{dash}/>')
        out.append(text(LEFT + 31, at, series.name, "start"))
    return out


def svg(panels):
    """The panels two by two."""
    width, height = WIDTH * min(2, len(panels)), HEIGHT * ((len(panels) + 1) // 2)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
           f'viewBox="0 0 {width} {height}" font-family="sans-serif">',
           f'<rect width="{width}" height="{height}" fill="white"/>']
    for i, panel in enumerate(panels):
        out += [f'<g transform="translate({WIDTH * (i % 2)} {HEIGHT * (i // 2)})">'] + draw_panel(panel) + ["</g>"]
    return "\n".join(out + ["</svg>"]) + "\n"

# Tables and a chart of one report of bench/peers/run.
# May know: the report, Markdown, charts.  Must not know: heed, peers, how anything is timed.
# Python's standard library alone.

import math
import re

import charts
from tables import median, show_time, table

def spread(values):
    """Half of the rounds lie within so much of the median, relative to it."""
    middle = median(values)
    return median([abs(value - middle) for value in values]) / middle


def times(entry):
    """One thread by the CPU time of its process, which counts nothing of other programs; several by the clock."""
    return entry.get("cpu" if entry["threads"] == 1 else "wall") or []


def timed(entry):
    return entry["status"] == "ok" and bool(times(entry))


def seconds(entry):
    return median(times(entry)) if timed(entry) else None


def key(entry):
    return entry["kind"], entry["shape"], entry["threads"]


def by_shape(report):
    """(kind, shape, threads) -> peer -> entry, in the order of the report."""
    shapes = {}
    for entry in report["results"]:
        shapes.setdefault(key(entry), {})[entry["peer"]] = entry
    return shapes


def rate(entry):
    if entry["flops"] and not entry["stream"]:
        return f"{1e-9 * entry['flops'] / seconds(entry):.1f} GFLOP/s"
    return f"{1e-9 * entry['bytes'] / seconds(entry):.1f} GB/s"


def error(value):
    return "infinite" if math.isinf(value) else f"{value:.1e}"


def many(threads):
    return "one thread" if threads == 1 else f"{threads} threads"


def row(entry, heed, titles):
    name = [titles[entry["peer"]] + (f" ({entry['note']})" if entry["note"] and timed(entry) else "")]
    if not timed(entry):
        reason = "" if entry["status"] == "wrong" else f": {entry['note']}"
        wrong = error(entry["error"]) if "error" in entry else ""
        return name + [entry["status"] + reason, "", "", "", wrong, ""]
    against = error(entry["against_heed"]) if entry["peer"] != "heed" else ""
    return name + [show_time(seconds(entry)), rate(entry), f"{seconds(entry) / seconds(heed):.2f}",
                   f"{100 * spread(times(entry)):.1f} %", error(entry["error"]), against]


def titles_of(report):
    return {name: about["title"] for name, about in report["peers"].items()}


def every_figure(report):
    """A row for each library and shape."""
    titles, parts = titles_of(report), []
    head = ["shape", "library", "time", "speed", "time over heed's", "spread", "error against f64", "against heed"]
    for threads in sorted({entry["threads"] for entry in report["results"]}):
        rows = []
        for (kind, shape, count), entries in by_shape(report).items():
            if count == threads:
                rows += [[f"{kind} {shape}"] + row(entry, entries["heed"], titles) for entry in entries.values()]
        parts.append(f"### {many(threads).capitalize()}\n\n" + table(head, rows, 2))
    return "\n\n".join(parts)


def cell(entry, heed):
    if entry is None:
        return ""
    if not timed(entry):
        return "wrong" if entry["status"] == "wrong" else "-"
    ratio = seconds(entry) / seconds(heed)
    return f"**{ratio:.2f}**" if ratio < 1.0 else f"{ratio:.2f}"


def ratios(report, kind, threads):
    """A row for each shape, a column for each peer: its time over heed's."""
    shapes = {k: entries for k, entries in by_shape(report).items() if k[0] == kind and k[2] == threads}
    peers = list(dict.fromkeys(name for entries in shapes.values() for name in entries if name != "heed"))
    rows = [[shape, show_time(seconds(entries["heed"])), rate(entries["heed"])] +
            [cell(entries.get(name), entries["heed"]) for name in peers]
            for (_, shape, _), entries in shapes.items() if timed(entries["heed"])]
    titles = titles_of(report)
    return table(["shape", "heed", "speed"] + [titles[name] for name in peers], rows) if rows else ""


def fastest_peer(entries):
    """The smallest ratio of a peer's time to heed's, and its name; None without peers."""
    heed = entries["heed"]
    found = [(seconds(e) / seconds(heed), name) for name, e in entries.items()
             if name != "heed" and timed(e) and timed(heed)]
    return min(found) if found else None


def best_ratios(report):
    """The fastest peer of each shape: (ratio, kind, shape, threads, title, length), the smallest ratio first."""
    titles, found = titles_of(report), []
    for (kind, shape, count), entries in by_shape(report).items():
        best = fastest_peer(entries)
        if best:
            found.append((best[0], kind, shape, count, titles[best[1]], entries["heed"].get("length", 0)))
    return sorted(found)


def where_slower(report):
    lines = [f"- {kind} {shape}, {many(threads)}: {title} takes {ratio:.2f} of heed's time"
             for ratio, kind, shape, threads, title, _ in best_ratios(report) if ratio < 1.0]
    return "\n".join(lines) or "Nowhere in this run."


def versions(report):
    rows = [[about["title"], about["version"]] for about in report["peers"].values()]
    rows += [[name, f"absent: {reason}"] for name, reason in report["absent"].items()]
    return table(["library", "version"], rows, 2)


def context(report):
    c = report["context"]
    command = "`bench/peers/run " + c["arguments"].replace("|", "\\|") + "`"
    facts = [("CPU", c["cpu"]), ("date", c["date"]), ("command", command),
             ("rounds", f"{c['rounds']} of {c['seconds']} s each, in turn")]
    return table(["", "this run"], [[name, str(value)] for name, value in facts], 2)


def summary(report):
    """What docs/performance.md holds; the rest is in a file of its own."""
    parts = [context(report), versions(report)]
    for threads in sorted({entry["threads"] for entry in report["results"]}):
        for kind in dict.fromkeys(entry["kind"] for entry in report["results"]):
            content = ratios(report, kind, threads)
            if content:
                parts += [f"Time of each over heed's, {kind}, {many(threads)}; bold: a peer is faster:", content]
    return "\n\n".join(parts + ["Where a peer is faster:", where_slower(report)])


def markdown(report):
    return summary(report) + "\n\n" + every_figure(report)


# ---- Chart ----


def speeds(report, peer, pattern, threads):
    points = []
    for entry in report["results"]:
        match = re.fullmatch(pattern, entry["shape"])
        if match and entry["peer"] == peer and entry["threads"] == threads and timed(entry):
            points.append((int(match[1]), 1e-9 * entry["flops"] / seconds(entry)))
    return sorted(points)


def panel(report, dim, threads):
    titles = titles_of(report)
    found = [(titles[peer], speeds(report, peer, rf"sweep_l(\d+)_d{dim}", threads)) for peer in titles]
    series = [charts.Series(title, points) for title, points in found if len(points) > 1]
    title = f"head_dim {dim}, {many(threads)}"
    return charts.Panel(title, "L (queries and keys)", "GFLOP/s", series, 2, 2, legend_below=True) if series else None


def chart(report):
    """Speed against length: a panel for each head_dim and number of threads.  None if the report has no sweep."""
    counts = sorted({entry["threads"] for entry in report["results"]})
    panels = [panel(report, dim, threads) for threads in counts for dim in (64, 128)]
    panels = [p for p in panels if p]
    return charts.svg(panels) if panels else None

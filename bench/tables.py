# Medians, and Markdown tables of them: what bench/report and bench/peers share.
# May know: numbers, Markdown.  Must not know: what is measured.
# Python's standard library alone.


def median(values):
    ordered = sorted(values)
    return 0.5 * (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2])


def table(head, rows, left=1):
    """So many columns from the left hold words, the others figures."""
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * left + " ---: |" * (len(head) - left)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def show_time(seconds):
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"

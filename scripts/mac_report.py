#!/usr/bin/env python3
"""The page of scripts/mac.sh: `mac_report.py FOLDER`, with what its steps left there. Writes report.md; missing parts are named.

Goals are those of the first report from a Mac. They are printed beside what was found, and fail nothing.
"""

import json
import pathlib
import re
import sys


def read_json(path):
    try:
        return json.loads(path.read_text())
    except (OSError, json.JSONDecodeError):
        return None


def read_steps(folder):
    """Name, result, seconds and words of each step."""
    path = folder / "steps.tsv"
    lines = path.read_text().splitlines() if path.exists() else []
    return [line.split("\t") for line in lines]


class Rates:
    """Calls per second by subject, workload and threads."""

    def __init__(self, compare):
        self.compare = compare or {}
        self.rows = {(r["subject"], r["workload"], r["threads"]): r for r in self.compare.get("rows", [])}

    def rate(self, subject, workload, threads):
        row = self.rows.get((subject, workload, threads))
        return row["calls_per_s"] if row else None

    def best(self, workload):
        rates = [r["calls_per_s"] for (s, w, _), r in self.rows.items() if s == "millstream" and w == workload]
        return max(rates, default=None)

    def host_share(self):
        row = self.rows.get(("millstream", "mlp", 1))
        return row.get("host_us") if row else None


def ratio(one, other):
    return one / other if one is not None and other else None


def idle_ratio(probe):
    """What the probe found for the longest idle time, in times of the usual."""
    rows = (probe or {}).get("rows", [])
    found = next((row["found"] for row in rows if row["name"] == "first-after-idle"), "")
    ratios = re.findall(r"idle ([0-9.]+) times that", found)
    return float(ratios[-1]) if ratios else None


def goals(compare, probe):
    """Each goal: what, the bound, whether more is better, and what was found."""
    rates = Rates(compare)
    found = [
        ("mlp of batch 1, one thread, calls/s", 8000, True, rates.rate("millstream", "mlp", 1)),
        ("mlp of batch 1, 8 threads, calls/s", 30000, True, rates.rate("millstream", "mlp", 8)),
    ]
    for threads in (31, 64):
        share = ratio(rates.rate("millstream", "mlp", threads), rates.best("mlp"))
        found.append((f"mlp, {threads} threads, of the best", 0.9, True, share))
    for workload in ("encoder", "conv1d"):
        times = ratio(rates.rate("millstream", workload, 8), rates.rate("torch", workload, 8))
        found.append((f"{workload}, 8 threads, times PyTorch MPS with a lock", 4, True, times))
    found.append(("host share of a call, µs", 25, False, rates.host_share()))
    products = (compare or {}).get("products", {})
    found.append(("f32 product of 2048³, of MPS", 0.8, True, ratio(products.get("millstream"), products.get("torch"))))
    found.append(("first call after an idle minute, times the usual", 2, False, idle_ratio(probe)))
    return found


def goal_lines(found):
    yield "| goal (M4 Max) | wanted | found | |"
    yield "|---|---|---|---|"
    for what, bound, more, value in found:
        wanted = f"{'at least' if more else 'at most'} {bound:,}"
        if value is None:
            yield f"| {what} | {wanted} | not measured | |"
            continue
        reached = value >= bound if more else value <= bound
        shown = f"{value:,.0f}" if value >= 100 else f"{value:.2f}"
        yield f"| {what} | {wanted} | {shown} | {'reached' if reached else 'missed'} |"


def probe_lines(probes):
    rows = [row for probe in probes if probe for row in probe["rows"]]
    if not rows:
        yield "The probe left nothing."
        return
    # A row that was run on demand takes the place of the one that was not.
    rows = list({row["name"]: row for row in rows}.values())
    outcomes = ["as assumed", "not", "measured", "not run"]
    counts = ", ".join(f"{sum(row['outcome'] == v for row in rows)} {v}" for v in outcomes)
    yield f"{len(rows)} rows: {counts}. All of them stand in probe.log."
    yield ""
    for row in rows:
        if row["outcome"] == "not":
            yield f"- **{row['name']}: not.** Assumed: {row['assumed']}. Found: {row['found']}"
    for row in rows:
        if row["outcome"] == "not run":
            yield f"- {row['name']} was not run: {row['found']}"
    for row in rows:
        if row["outcome"] == "measured":
            yield f"- {row['name']}: {row['found']}"


def report(folder):
    steps = read_steps(folder)
    failed = [name for name, result, *_ in steps if result == "FAILED"]
    skipped = [name for name, result, *_ in steps if result == "skipped"]
    about = (folder / "about.txt").read_text().strip() if (folder / "about.txt").exists() else "unknown machine"
    compare = read_json(folder / "compare.json")
    probes = [read_json(folder / "probe.json"), read_json(folder / "probe-faults.json")]
    lines = ["# The Metal device on a Mac", "", about, ""]
    lines.append(f"{len(steps)} steps: {len(failed)} failed{': ' if failed else ''}{', '.join(failed)}; {len(skipped)} skipped.")
    lines += ["", "| step | result | seconds | |", "|---|---|---|---|"]
    lines += [f"| {name} | {result} | {seconds} | {words} |" for name, result, seconds, words in steps]
    lines += ["", "## Goals", "", *goal_lines(goals(compare, probes[0]))]
    lines += ["", "## Assumptions", "", *probe_lines(probes), "", "## Speed", ""]
    table = folder / "compare.md"
    lines.append(table.read_text().strip() if table.exists() else "Nothing was compared.")
    plots = sorted(path.name for path in folder.glob("*.svg"))
    lines += ["", *(f"![{plot}]({plot})" for plot in plots)]
    lines += ["", "Each step has a log of its name in this folder; trace.json opens in https://ui.perfetto.dev."]
    return "\n".join(lines) + "\n"


def main():
    folder = pathlib.Path(sys.argv[1])
    (folder / "report.md").write_text(report(folder))


if __name__ == "__main__":
    main()

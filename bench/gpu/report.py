"""Medians, ratios and goals from the rows that `compare.py` gathered."""

import statistics

PROGRAMS = ["ours", "ceiling", "eager", "graph"]
PEERS = PROGRAMS[1:]
NAMES = {"ours": "Millstream", "ceiling": "ceiling", "eager": "eager", "graph": "graphs"}
FIGURES = ["calls_per_s", "p50_us", "p99_us"]


def medians(samples):
    """Of (program, row) the medians over rounds, by program, workload, threads and way of waiting."""
    gathered = {}
    for program, row in samples:
        key = (program, row["workload"], row["threads"], row.get("way"))
        gathered.setdefault(key, []).append(row)
    found = []
    for (program, workload, threads, way), rows in gathered.items():
        figures = {name: statistics.median(row[name] for row in rows) for name in FIGURES}
        names = {"program": program, "workload": workload, "threads": threads, "way": way}
        found.append({**names, **figures, "all_calls_per_s": [row["calls_per_s"] for row in rows]})
    return found


class Results:
    """The figures of a run. Of several ways of waiting the better one counts, for each figure."""

    def __init__(self, samples, workloads, threads, expected):
        self.rows, self.workloads, self.threads = medians(samples), workloads, threads
        # Which programs should have figures for which workload.
        self.expected = expected
        self.found = {}
        for row in self.rows:
            self.found.setdefault((row["program"], row["workload"], row["threads"]), []).append(row)

    def rate(self, program, workload, threads):
        rows = self.found.get((program, workload, threads))
        return max(row["calls_per_s"] for row in rows) if rows else None

    def latency(self, program, workload, threads):
        rows = self.found.get((program, workload, threads))
        return min(row["p50_us"] for row in rows) if rows else None

    def way(self, program, workload, threads):
        rows = self.found.get((program, workload, threads))
        return max(rows, key=lambda row: row["calls_per_s"])["way"] if rows else None

    def peak(self, workload):
        """Our best rate with 1 to 16 threads."""
        rates = [self.rate("ours", workload, threads) for threads in self.threads if threads <= 16]
        return max((rate for rate in rates if rate is not None), default=None)

    def missing(self, program, workload):
        """What stands in the table in place of a figure that is not there."""
        return "failed" if program in self.expected.get(workload, []) else "–"


def ratio(one, other):
    return one / other if one is not None and other else None


def goal(text, figure, needed, below=False):
    """A goal with its figure, and whether that is reached; None where a figure was not measured."""
    holds = None if figure is None else figure < needed if below else figure >= needed
    return {"goal": text, "figure": figure, "needed": needed, "below": below, "holds": holds}


def goals(results):
    """The goals for the workloads that were asked for."""
    found = []
    rate, latency = results.rate, results.latency
    if "mlp" in results.workloads:
        for threads in [1, 8, 16]:
            share = ratio(rate("ours", "mlp", threads), rate("ceiling", "mlp", threads))
            found.append(goal(f"mlp, threads {threads}: rate / ceiling", share, 0.9))
        for peer, needed in [("eager", 20.0), ("graph", 5.0)]:
            share = ratio(rate("ours", "mlp", 31), rate(peer, "mlp", 31))
            found.append(goal(f"mlp, threads 31: rate / PyTorch {NAMES[peer]}", share, needed))
    for workload in [name for name in ["encoder", "conv1d"] if name in results.workloads]:
        share = ratio(rate("ours", workload, 8), rate("eager", workload, 8))
        found.append(goal(f"{workload}, threads 8: rate / PyTorch eager", share, 5.0))
        for peer in ["eager", "graph"]:
            share = ratio(latency("ours", workload, 1), latency(peer, workload, 1))
            text = f"{workload}, threads 1: p50 / PyTorch {NAMES[peer]}"
            found.append(goal(text, share, 1.0, below=True))
    for workload in results.workloads:
        for threads in [31, 64]:
            share = ratio(rate("ours", workload, threads), results.peak(workload))
            found.append(goal(f"{workload}, threads {threads}: rate / best of 1 to 16", share, 0.9))
    return found


def markdown(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def number(value):
    return "–" if value is None else f"{value:.2f}"


def rate_table(results):
    head = ["workload", "threads", *NAMES.values(), "ours / ceiling", "ours / eager", "ours / graphs"]
    rows = []
    for workload in results.workloads:
        for threads in results.threads:
            cells = [workload, str(threads)]
            rates = {program: results.rate(program, workload, threads) for program in PROGRAMS}
            for program, rate in rates.items():
                way = results.way(program, workload, threads)
                figure = results.missing(program, workload) if rate is None else f"{rate:,.0f}"
                cells.append(f"{figure} {way}" if way else figure)
            cells += [number(ratio(rates["ours"], rates[peer])) for peer in PEERS]
            rows.append([*cells, number(ratio(rates["ours"], results.peak(workload)))])
    return markdown([*head, "ours / own best of 1 to 16"], rows)


def latency_table(results):
    head = ["workload", *(f"{name} µs" for name in NAMES.values())]
    rows = []
    for workload in results.workloads:
        times = {program: results.latency(program, workload, 1) for program in PROGRAMS}
        cells = [workload]
        for program, time in times.items():
            cells.append(results.missing(program, workload) if time is None else f"{time:.1f}")
        rows.append([*cells, *(number(ratio(times["ours"], times[peer])) for peer in PEERS)])
    return markdown([*head, *(f"ours / {NAMES[peer]}" for peer in PEERS)], rows)


def goal_table(found):
    rows = []
    for one in found:
        holds = {True: "holds", False: "does not hold", None: "not measured"}[one["holds"]]
        needed = f"{'below' if one['below'] else 'at least'} {one['needed']:g}"
        rows.append([one["goal"], number(one["figure"]), needed, holds])
    return markdown(["goal", "figure", "needed", ""], rows)


def text(results, problems):
    """All tables of a run."""
    parts = ["## Calls per second", rate_table(results)]
    if 1 in results.threads:
        parts += ["## Latency of one thread (median)", latency_table(results)]
    parts += ["## Goals", goal_table(goals(results))]
    if problems:
        parts += ["## What failed", "\n".join(f"- {problem}" for problem in problems)]
    return "\n\n".join(parts) + "\n"

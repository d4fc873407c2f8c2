#!/usr/bin/env python3
"""pictures.py [--check] - draws the pictures of doc/performance.md from the results that are committed, one SVG for each group, in
bench/results/pictures. They follow the reader's light or dark colours. --check changes nothing, and fails if a picture is not what
the results give. Needs Python's standard library only.
"""

import html
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
OUT = ROOT / "bench/results/pictures"
MEASUREMENTS = "bench/results/measurements.md"
WIDTH, LEFT, ROW, BAR, RIGHT = 560, 216, 20, 12, 48
STYLE = """text { font: 12px system-ui, sans-serif; fill: #333 } .title { font-weight: 600; font-size: 14px } .small { fill: #667 } .value { fill: #667; font-size: 10px }
.a { fill: #1f8a82 } .b { fill: #8d99a6 } .c { fill: #d08a3e } .d { fill: #8a6fb0 } .axis { stroke: #c8ced6 } .mark { stroke: #b33; stroke-dasharray: 4 3 }
@media (prefers-color-scheme: dark) {
text { fill: #dde2e8 } .small, .value { fill: #9aa6b2 } .a { fill: #45b8ae } .b { fill: #76828f } .c { fill: #dba05c } .d { fill: #a78fd0 }
.axis { stroke: #444d58 } .mark { stroke: #e07070 } }"""


def read_json(path):
    return json.loads((ROOT / path).read_text())


def table(path, heading):
    """The rows of the table of a page whose first line begins so, as dictionaries by column."""
    lines = (ROOT / path).read_text().split("\n")
    start = next(at for at, line in enumerate(lines) if line.startswith(heading))
    cells = lambda line: [cell.strip().strip("`") for cell in line.strip().strip("|").split("|")]
    names, rows = cells(lines[start]), []
    for line in lines[start + 2:]:
        if not line.startswith("|"):
            break
        rows.append(dict(zip(names, cells(line))))
    return rows


def number(text):
    """The first number of a cell, or None."""
    found = re.search(r"\d[\d,]*\.?\d*", text or "")
    return float(found[0].replace(",", "")) if found else None


def draw(title, note, series, rows, mark, form):
    """Rows of (label, values), a bar for each series; `mark` is the value at which a dashed line stands."""
    each = max(ROW, BAR * len(series) + 8)
    legend = 20 if len(series) > 1 else 0
    top = 50 + legend
    height = top + each * len(rows) + 24
    most = max(value for _, values in rows for value in values if value is not None)
    scale = (WIDTH - LEFT - RIGHT) / max(most, mark)
    text = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
            f"<title>{html.escape(title)}</title>", f"<style>{STYLE}</style>",
            f'<text class="title" x="8" y="20">{html.escape(title)}</text>', f'<text class="small" x="8" y="38">{html.escape(note)}</text>']
    x = LEFT
    for kind, name in zip("abcd", series if legend else ()):
        text.append(f'<rect class="{kind}" x="{x}" y="46" width="10" height="10"/><text x="{x + 14}" y="56">{html.escape(name)}</text>')
        x += 34 + 7 * len(name)
    bottom = top + each * len(rows)
    text += [f'<path class="axis" d="M{LEFT} {top}V{bottom}" fill="none"/>',
             f'<path class="mark" d="M{LEFT + mark * scale:.1f} {top}V{bottom}" fill="none"/>',
             f'<text class="small" x="{LEFT + mark * scale:.1f}" y="{bottom + 16}" text-anchor="middle">{form(mark)}</text>']
    for at, (label, values) in enumerate(rows):
        y = top + at * each
        text.append(f'<text x="{LEFT - 8}" y="{y + each / 2 + 4:g}" text-anchor="end">{html.escape(label)}</text>')
        first = y + (each - BAR * len(values)) / 2
        for index, (kind, value) in enumerate(zip("abcd", values)):
            if value is not None:
                bar, length = first + index * BAR, value * scale
                text.append(f'<rect class="{kind}" x="{LEFT}" y="{bar:g}" width="{length:.1f}" height="{BAR - 2}"/>'
                            f'<text class="value" x="{LEFT + length + 4:.1f}" y="{bar + 9:g}">{form(value)}</text>')
    text.append("</svg>")
    return "\n".join(text) + "\n"


def percent(value):
    return f"{value * 100:.0f} %"


def times(value):
    return f"{value:.2f}".rstrip("0").rstrip(".") + "×"


def limits_cpu():
    result = read_json("bench/baseline.json")
    # A bar of 1 or more is that of a time per call, which no limit of the machine stands beside.
    rows = [(case["name"], [case["ratio"]]) for case in result["results"]
            if case["bar"] < 1 and not re.search(r"\b(f64|i32|f16)\b", case["name"])]
    return draw("Share of the machine's limit, CPU", f"{result['machine']}, {result['threads']} threads; limits measured in the same run",
                ["Zellige"], rows, 1, percent)


def libraries_cpu():
    rows = []
    for row in table(MEASUREMENTS, "| work | bar | worst"):
        worst, median = number(row["worst"]), number(row["median"])
        if number(row["bar"]) is not None and not re.search("peak|pool", row["work"]):
            rows.append((row["work"].split(";")[0].split(", beside")[0], [median, worst]))
    return draw("Speed relative to the best other library, CPU", "Neoverse-V1, two threads: best peer's time divided by ours",
                ["median", "worst case"], rows, 1, times)


def programs_cpu():
    series = {"zellige": "Zellige", "torch": "PyTorch", "torch.compile": "torch.compile", "mlx": "MLX"}
    rows = [(re.sub(r"^train | float32$", "", program["name"]), [program["seconds"]["torch"] / program["seconds"][name]
                                                                  if program["seconds"].get(name) else None for name in series])
            for program in read_json("bench/results/programs-cpu.json")["programs"]]
    return draw("Training steps per second, PyTorch is 1, CPU", "Neoverse-V1, two threads, float32", list(series.values()), rows, 1, times)


def programs_h200():
    rows = []
    for row in table(MEASUREMENTS, "| program, bfloat16 | Zellige"):
        seconds = [number(row[name]) for name in ("Zellige", "PyTorch", "torch.compile")]
        rows.append((re.sub(r"^train (a )?|, \d+ x [\d,]+ tokens.*|, \d+ (images|latents).*", "", row["program, bfloat16"]),
                     [min(filter(None, seconds[1:])) / value if value else None for value in seconds]))
    return draw("Training steps per second, the faster PyTorch is 1, H200", "bfloat16; best of 8 to 12 steps, a process for each library",
                ["Zellige", "PyTorch", "torch.compile"], rows, 1, times)


def peak_h200():
    result = read_json("bench/results/h200/gpu_full.json")
    rows = [(re.sub(r"^elementwise\.|/33554432$", "", row["id"]), [row["utilisation"]]) for row in result["rows"]
            if row.get("utilisation") and re.match(r"(gemm|gemm\.nt|attention|attention\.causal)/bf16/|gemm/(f32|f64)/4096|elementwise|bandwidth",
                                                   row["id"])]
    return draw("Share of the published peak, H200", f"{result['subject']['name']}: of arithmetic, or of 4.8 TB/s; {result['started'][:10]}",
                ["Zellige"], rows, 1, percent)


def vulkan_h200():
    rows = [(case["case"], [float(case["ratio"])]) for case in read_json("bench/results/vulkan-h200.json")["cases"]
            if case["ratio"] and case["unit"] and not re.search(r"gemm.* (?!4096x4096x4096|8192x8192x8192)\d+x\d+x\d+$", case["case"])]
    return draw("Vulkan relative to CUDA, H200", "the same work on the same GPU; 1 is the speed of the device cuda", ["vulkan"], rows, 1, times)


PICTURES = (limits_cpu, libraries_cpu, programs_cpu, programs_h200, peak_h200, vulkan_h200)


def main():
    OUT.mkdir(exist_ok=True)
    stale = 0
    for picture in PICTURES:
        path, text = OUT / f"{picture.__name__.replace('_', '-')}.svg", picture()
        if path.exists() and path.read_text() == text:
            continue
        stale += 1
        print(f"{path.relative_to(ROOT)}: " + ("is not what the results give; run bench/pictures.py" if "--check" in sys.argv else "drawn"))
        if "--check" not in sys.argv:
            path.write_text(text)
    return stale > 0 and "--check" in sys.argv


if __name__ == "__main__":
    sys.exit(main())

"""What `zellige bench` measured: runs with their rows and samples, and the history of a folder of runs.

    run = zellige.bench.load("runs/20261115-190000")
    print(run.name, run.peaks["bf16"])
    for row in run:
        print(row.id, row.status, row.median, row.utilisation)

Times are seconds, rates units a second. What a run does not tell is None.
"""

import dataclasses
import json
import os
from typing import Dict, Iterator, List, Optional, Tuple

__all__ = ["Entry", "Row", "Run", "history", "load"]


@dataclasses.dataclass(frozen=True)
class Row:
    """One configuration, as it was measured. The same work has the same id in other runs."""

    id: str
    work: str
    op: str
    dtype: str
    size: Tuple[int, ...]
    status: str  # "ok", "suspect", "failed", "absent"
    note: str  # why it is not "ok"
    unit: str  # "FLOP", "B", "calls", "images"
    path: str  # how the dtype is computed: "f32 (bf16 path)"; "": as it is
    samples: Tuple[float, ...]  # seconds of one run each, in the order they were taken
    median: Optional[float]
    low: Optional[float]  # the interval that holds the median with 95 %
    high: Optional[float]
    mad: Optional[float]  # median distance from the median
    p5: Optional[float]  # percentiles
    p95: Optional[float]
    best: Optional[float]
    rate: Optional[float]
    peak: Optional[float]
    utilisation: Optional[float]  # rate / peak
    limit: Optional[float]  # of the roofline
    flops: Optional[float]  # of one run, and so are bytes and items
    bytes: Optional[float]
    items: Optional[float]
    outliers: int
    stable: bool
    bimodal: bool
    memory_bound: bool
    steal: Optional[float]
    load: Optional[float]


@dataclasses.dataclass(frozen=True)
class Run:
    """A run folder. Iterating gives its rows; run["gemm/f32/512"] is one of them."""

    path: str
    suite: str
    status: str  # "complete", "interrupted", "running"
    started: str
    host: str
    version: str
    commit: str
    branch: str
    command: str
    notes: str
    baseline: str
    evidence: str  # what the chip was recognised by
    chip: str  # of the table of chips; "": it does not know it
    name: str
    device: str
    threads: int
    bandwidth: Optional[float]
    peaks: Dict[str, Optional[float]]  # operations per second of one device, by dtype
    rows: Tuple[Row, ...]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, id: str) -> Row:
        for row in self.rows:
            if row.id == id:
                return row
        raise KeyError(f"{self.path} has no row {id!r}")


@dataclasses.dataclass(frozen=True)
class Entry:
    """A line of the history: load(entry.path) is the run."""

    path: str
    started: str
    suite: str
    status: str
    chip: str
    name: str
    device: str
    threads: int
    commit: str


_SECONDS = ("median", "low", "high", "mad", "p5", "p95", "best")  # the file calls them median_s


def _fill(cls, values, **given):
    """An object whose fields come from a dictionary; what that lacks is "", 0, False or None, as the field is."""
    empty = {str: "", int: 0, bool: False}
    for field in dataclasses.fields(cls):
        if field.name not in given:
            key = field.name + "_s" if cls is Row and field.name in _SECONDS else field.name
            value = values.get(key)
            given[field.name] = empty.get(field.type) if value is None else value
    return cls(**given)


def _row(values) -> Row:
    return _fill(Row, values, size=tuple(values.get("size", ())), samples=tuple(values.get("samples_s", ())))


def load(path) -> Run:
    """The run of a folder, or of a file like its metrics.json."""
    path = os.fspath(path)
    file = os.path.join(path, "metrics.json") if os.path.isdir(path) else path
    with open(file, encoding="utf-8") as text:
        data = json.load(text)
    if not isinstance(data, dict) or not isinstance(data.get("rows"), list):
        raise ValueError(f"zellige.bench.load: {file} has no list 'rows': it is not the metrics.json of a run")
    subject = data.get("subject", {})
    peaks = {dtype: peak.get("rate") for dtype, peak in subject.get("peaks", {}).items()}
    about = {**data, **{key: subject.get(key) for key in ("chip", "name", "device", "threads", "bandwidth")}}
    return _fill(Run, about, path=path, peaks=peaks, rows=tuple(_row(row) for row in data["rows"]))


def history(root="runs", **wanted) -> List[Entry]:
    """The runs that a folder's index lists, the oldest first: history("runs", suite="gemm", status="complete")."""
    root = os.fspath(root)
    names = [field.name for field in dataclasses.fields(Entry)]
    for name in wanted:
        if name not in names:
            raise TypeError(f"zellige.bench.history: entries have no {name!r}, but {', '.join(names)}")
    found = {}
    with open(os.path.join(root, "index.jsonl"), encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                values = json.loads(line) if line.strip() else {}
            except ValueError as error:
                raise ValueError(f"zellige.bench.history: {lines.name}:{number} is damaged: {error}") from None
            if values:  # of a run that was resumed the last line counts
                path = os.path.join(root, values.get("folder", ""))
                found[path] = _fill(Entry, values, path=path)
    return [entry for entry in found.values() if all(getattr(entry, name) == value for name, value in wanted.items())]

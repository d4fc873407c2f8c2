"""Loops, launches and their threads: T.Parallel, T.Pipelined, T.serial, T.unroll, T.vectorized, T.grid, T.Persistent, and T.Kernel."""

from .bounds import bounds, known, simplified
from .builder import current
from .dtypes import INDEX
from .errors import fail
from .expr import cast, wrap
from .phases import split


def size(value):
    return simplified(cast(value, INDEX))


def shown(value):
    return wrap(value).text(INDEX)


class Loop:
    """Something that `for` runs over in a kernel; run(names) yields the loop variables once, inside of its block."""

    def __iter__(self):
        yield from self.run(None)


def listed(names, count):
    if isinstance(names, str):
        return [names] if count == 1 else [f"{names}_{i}" for i in range(count)]
    if isinstance(names, tuple) and len(names) == count:
        return [n if isinstance(n, str) else None for n in names]
    return [None] * count


class Counted(Loop):
    """begin .. end step, in order: for, unroll, vector or pipeline."""

    def __init__(self, word, begin, end, step=1, stages=0):
        self.word, self.begin, self.end, self.step = word, size(begin), size(end), size(step)
        self.stages = stages

    def header(self, name):
        span = shown(self.end) if known(self.begin) == 0 else f"{shown(self.begin)} .. {shown(self.end)}"
        step = "" if known(self.step) == 1 else f" step {shown(self.step)}"
        return f"{self.word} {name} in {span}{step}" + (f" stages {self.stages}" if self.stages else "")

    def run(self, names):
        builder = current("a loop")
        body = []
        builder.loops.append("ir")
        with builder.inside(body):
            name = builder.index(listed(names, 1)[0], self.end, self.begin)
            if known(self.begin) != 0:
                name.extent = None if known(self.step) != 1 else self.end
            if known(self.step) is not None and known(self.step) < 0:
                name.extent, name.bounds = None, (plus_one(bounds(self.end)[0]), bounds(self.begin)[1])
            header = self.header(name.name)
            yield name
        builder.loops.pop()
        builder.emit(header, body)


def plus_one(value):
    return None if value is None else value + 1


class Points(Loop):
    """All points of a rectangle, in any order."""

    def __init__(self, extents):
        self.extents = [size(e) for e in extents]

    def run(self, names):
        together("a loop over all points")
        builder = current("T.Parallel")
        body = []
        builder.loops.append("map")
        with builder.inside(body):
            names = [n or "ijkl"[i % 4] for i, n in enumerate(listed(names, len(self.extents)))]
            found = [builder.index(n, e) for n, e in zip(names, self.extents)]
            header = "map " + ", ".join(f"{n.name} in {shown(e)}" for n, e in zip(found, self.extents))
            yield found[0] if len(found) == 1 else tuple(found)
        builder.loops.pop()
        builder.emit(header, body)


class Nest(Loop):
    """T.grid: serial loops in each other."""

    def __init__(self, extents):
        self.extents = extents

    def run(self, names):
        names = listed(names, len(self.extents))
        open_loops = [Counted("for", 0, e).run(n) for n, e in zip(names, self.extents)]
        found = tuple(next(loop) for loop in open_loops)
        yield found[0] if len(found) == 1 else found
        for loop in reversed(open_loops):
            next(loop, None)


def counted(word, start, stop, step, stages=0):
    return Counted(word, 0, start, step or 1, stages) if stop is None else Counted(word, start, stop, step or 1, stages)


def serial(start, stop=None, step=None, **hints):
    return counted("for", start, stop, step)


def unroll(start, stop=None, step=None, unroll_factor=None, **hints):
    return counted(f"unroll {unroll_factor}" if unroll_factor else "unroll", start, stop, step)


def vectorized(start, stop=None, **hints):
    return counted("for", start, stop, 1)


def Pipelined(start, stop=None, num_stages=0, order=None, stage=None, sync=None, group=None, **hints):
    return counted("pipeline" if num_stages else "for", start, stop, 1, num_stages)


def Parallel(*extents, **hints):
    return Points(extents)


def grid(*extents):
    return Nest(extents)


class Waves(Loop):
    """T.Persistent: every block takes each wave-th tile; one loop over the tiles of this block."""

    def __init__(self, domain, wave_size, index):
        self.domain, self.wave, self.index = [size(d) for d in domain], size(wave_size), index

    def run(self, names):
        total = 1
        for extent in self.domain:
            total = total * extent
        loop = Counted("for", self.index, total, self.wave)
        for tile in loop.run("tile"):
            builder = current("T.Persistent")
            found = []
            for extent in reversed(self.domain):
                found.insert(0, tile % extent)
                tile = tile // extent
            made = tuple(builder.named(n or "t", f) for n, f in zip(listed(names, len(found)), found))
            yield made[0] if len(made) == 1 else made


def Persistent(domain, wave_size, index, group_size=8):
    return Waves(domain, wave_size, index)


# Launches -------------------------------------------------------------------------------------------------------------


class Kernel:
    """with T.Kernel(blocks along x, y, z, threads=128) as (bx, by, bz): the body runs once for every block."""

    def __init__(self, *blocks, threads=None, prelude=None, **hints):
        self.blocks = [size(b) for b in blocks] or [1]
        if len(self.blocks) > 3:
            fail(f"T.Kernel has at most 3 axes of blocks, not {len(self.blocks)}")
        threads = threads if isinstance(threads, (list, tuple)) else [threads or 128]
        self.threads = [known(t) or 1 for t in threads]
        self.names = None
        self.bound = {}    # dim: the thread's number, once it was asked for
        self.by_threads = []
        self.cuts = []     # where in the body all blocks wait for each other

    def name_blocks(self, names):
        self.names = names

    def __enter__(self):
        builder = current("T.Kernel")
        if builder.resolving is not None:
            raise ConstantsFound
        if builder.in_grid:
            fail("T.Kernel inside of T.Kernel")
        self.builder, self.body = builder, []
        self.inner = builder.inside(self.body)
        self.inner.__enter__()
        builder.in_grid = True
        names = listed(self.names, len(self.blocks))
        self.found = [builder.index(n or f"b{'xyz'[i]}", e) for i, (n, e) in enumerate(zip(names, self.blocks))]
        count = 1
        for t in self.threads:
            count *= t
        axes = ", ".join(f"{n.name} in {shown(e)}" for n, e in zip(self.found, self.blocks))
        self.header = f"grid {axes}, threads {count}"
        builder.launches.append(self.blocks)
        builder.launch = self
        return self.found[0] if len(self.found) == 1 and not isinstance(self.names, tuple) else tuple(self.found)

    def __exit__(self, kind, error, trace):
        if kind is ConstantsFound:
            return False
        self.close_threads(kind is None)
        self.builder.launch = None
        self.inner.__exit__(None, None, None)
        self.builder.in_grid = False
        if kind is None:
            for part in split(self.body, self.cuts):
                self.builder.emit(self.header, part)
        return False

    def cut(self):
        if self.builder.blocks[-1] is not self.body:
            fail("T.sync_grid inside of a loop or branch: all blocks must come to it once")
        self.cuts.append(len(self.body))

    def bind_threads(self, dim):
        """The number of a thread: what follows in the launch is done by each thread on its own, in any order."""
        if dim in self.bound:
            return self.bound[dim]
        builder = self.builder
        if builder.blocks[-1] is not (self.by_threads[-1][1] if self.by_threads else self.body):
            fail("the number of a thread is asked for inside of a loop or branch: ask for it at the beginning of the launch")
        body = []
        scope = builder.inside(body)
        scope.__enter__()
        name = builder.index(f"t{'xyz'[dim]}", self.threads[dim] if dim < len(self.threads) else 1)
        self.by_threads.append((f"map {name.name} in {shown(name.extent)}", body, scope))
        self.bound[dim] = name
        return name

    def close_threads(self, is_good):
        while self.by_threads:
            header, body, scope = self.by_threads.pop()
            scope.__exit__(None, None, None)
            if is_good:
                self.builder.emit(header, body)

    @property
    def num_threads(self):
        count = 1
        for t in self.threads:
            count *= t
        return count


class ConstantsFound(Exception):
    """The launch of an eager function is reached: its constants are known if its arguments tell them."""


def launch():
    return current("this").launch or fail("this belongs inside of a T.Kernel")


def get_block_binding(dim=0):
    return launch().found[dim]


def get_block_bindings():
    return list(launch().found)


def get_thread_binding(dim=0):
    return launch().bind_threads(dim)


def get_thread_bindings():
    return [get_thread_binding(dim) for dim in range(len(launch().threads))]


def thread_binding(begin, end=None, thread="threadIdx.x", **hints):
    name = str(thread)
    if not name.startswith("threadIdx."):
        fail(f"T.thread_binding is of threadIdx.x, y or z here, not of {name}; blocks are named by T.Kernel")
    return get_thread_binding("xyz".index(name[-1]))


def together(what):
    """Refuses what all threads of a block do together where each goes its own way."""
    found = current(what).launch
    if found is not None and found.bound:
        fail(f"{what} is of all threads together, after the number of a thread was asked for: tile programs are of one kind")


def get_block_extent(dim=0):
    return launch().blocks[dim]


def get_thread_extent(dim=0):
    return launch().threads[dim]



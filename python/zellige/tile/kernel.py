"""Compiled kernels: called with arrays, checked before they run."""

from . import engine, native
from .arrays import finished, is_zellige, library_of, memory_of, new_array, zellige_memory
from .dtypes import dtype
from .errors import TileError
from .expr import Expr, Name


class Kernel:
    """A program for one target, or for those that its arguments ask for. Parameters that out_idx names are returned: those that the
    caller passes too are filled, the others are made by the call."""

    def __init__(self, program, out_idx=None, target="auto"):
        self.program, self.target = program, target
        self.prim_func = program
        self.params = program.params
        self.out_idx = results_of(program, out_idx)
        self.inputs = [i for i in range(len(self.params)) if i not in self.out_idx]
        self.code = engine.compile_text(program, target)
        self.latency = self.config = self.ref_latency = self.libcode = None
        self.text_inputs = [i for i in program.order if i not in self.out_idx]
        self.text_outputs = [i for i in program.order if i in self.out_idx]
        self.is_plain = self.find_plain()
        self.follows = engine.follows(target)
        self.device = engine.device_of(target)
        self.checks = [Check(program.name, p, None if self.follows else self.device) for p in self.params]
        self.late = [i for i, check in enumerate(self.checks) if check.later]

    def __call__(self, *args, **kwargs):
        values = self.arranged(args, kwargs)
        if self.takes_arrays(values):
            results = self.run_arrays(values)
        else:
            memories, results = self.prepared(values)
            self.run(memories)
        given = tuple(finished(results[i]) for i in self.out_idx)
        return None if not given else given[0] if len(given) == 1 else given

    # Arrays of zellige.core, which the library takes from where they are

    def takes_arrays(self, values):
        """Whether the library can do it: all are its own, of the parameters' dtypes, and none of them is written."""
        return self.is_plain and all(values[i] is None for i in self.out_idx) and all(
            is_zellige(values[i]) and zellige_memory(values[i]).dtype == self.params[i].dtype
            for i in self.inputs if not self.params[i].is_scalar)

    def find_plain(self):
        """Whether all parameters are row-major arrays or numbers, and those that are written are results."""
        arrays = [p for p in self.params if not p.is_scalar]
        is_odd = any(p.packed or p.stride or p.dtype.is_small for p in arrays)
        written = sum(p.is_written for p in arrays)
        return not is_odd and written == len(self.out_idx) < len(arrays) and self.program.order == self.text_inputs + self.text_outputs

    def run_arrays(self, values):
        symbols = {}
        known = {i: self.checks[i].memory(values[i], symbols, zellige_memory) for i in self.inputs}
        for index in self.late:
            self.checks[index].finish(known.get(index), symbols)
        inputs = [known[i] if self.params[i].is_scalar else values[i] for i in self.text_inputs]
        return dict(zip(self.text_outputs, engine.call(self.code, inputs, self.program)))

    # Memory

    def prepared(self, values):
        """The memory of all parameters, checked, and the arrays among them that are returned."""
        results = {i: values[i] for i in self.out_idx}
        symbols, memories = {}, [None] * len(self.params)
        for index, value in enumerate(values):
            if value is not None or index not in results:
                memories[index] = self.checks[index].memory(value, symbols)
        device = self.common_device(memories)
        for index, value in results.items():
            if value is None:
                results[index] = self.new_result(index, values, symbols, device)
                memories[index] = self.checks[index].memory(results[index], symbols)
        for index in self.late:
            self.checks[index].finish(memories[index], symbols)
        return memories, results

    def new_result(self, index, values, symbols, device):
        """An array for a parameter, of the library of the arguments."""
        param, library = self.params[index], library_of([values[i] for i in self.inputs])
        return new_array(library, self.checks[index].sizes(symbols), packed_type(param, library), device, param.buffer.is_combined)

    def common_device(self, memories):
        """The device of the arguments; where a kernel follows them, it is the same for all."""
        found = [(self.params[i].name, m.device) for i, m in enumerate(memories) if m is not None and not self.params[i].is_scalar]
        if self.follows and len({device for _, device in found}) > 1:
            places = ", ".join(f"'{name}' is on {device}" for name, device in found)
            raise TileError(f"{self.program.name}: the arguments are on different devices: {places}; copy them to one, or compile the "
                            "kernel for a target")
        return found[0][1] if found else self.device

    def told(self, memories):
        """The arguments in the order of the text."""
        told = lambda m, param: m if param.is_scalar else m.told(param.dtype)  # noqa: E731
        return [told(memories[i], self.params[i]) for i in self.program.order]

    def run(self, memories, repeats=0):
        if engine.watched is not None and not repeats and engine.is_modelled(self.target):
            engine.watched.append(engine.run(self.code, self.told(memories), self.program, 1))
        return engine.run(self.code, self.told(memories), self.program, repeats)

    def report(self, *args):
        """What the engines of the target's chip do in a run on these arguments, where its times are modelled: a dictionary of
        `milliseconds`, the shares `compute`, `copies` and `lanes`, `commands`, `bytes`, `bank_conflicts` and `scalars`, elements that are
        handled one at a time. Nothing is computed."""
        memories, keep = self.prepared(self.arranged(args, {}))
        return engine.report(self.code, self.told(memories), self.program)

    def timer(self, *args):
        """A function that runs the kernel on these arguments and tells the milliseconds by the clock of its device."""
        memories, results = self.prepared(self.arranged(args, {}))
        return lambda keep=results: self.run(memories, 1) * 1e3

    def arranged(self, args, kwargs):
        """A value for every parameter; None for results that the call makes. Positional arguments are those of all parameters, or of
        all but the results, less what is passed by name."""
        count = len(self.params)
        if len(args) == count and not kwargs:
            return args
        values = [None] * count
        places = range(count) if len(args) + len(kwargs) == count else self.inputs
        if kwargs:
            places = self.named(kwargs, values, places)
        if len(args) > len(places) or len(args) < len(places) and not kwargs:
            raise TileError(f"{self.program.name} takes {self.counted()}, not {len(args) + len(kwargs)}")
        for index, value in zip(places, args):
            values[index] = value
        return values

    def named(self, kwargs, values, places):
        """Puts arguments by name into values; the places that are left."""
        names = [p.name for p in self.params]
        for name, value in kwargs.items():
            if name not in names:
                raise TileError(f"{self.program.name}: there is no argument '{name}'; there are {', '.join(names)}")
            values[names.index(name)] = value
        return [i for i in places if names[i] not in kwargs]

    def counted(self):
        """How many arguments a call has, in words."""
        count = len(self.inputs)
        results = f", and {self.names(self.out_idx)} if it is to be filled" if self.out_idx else ""
        return f"{count} argument{'s' * (count != 1)} ({self.names(self.inputs)}){results}"

    def names(self, indices):
        return ", ".join(self.params[i].name for i in indices) or "nothing"

    def __getitem__(self, grid):
        """kernel[grid](args): the grid must be the one that the program says. One block, (1,), is a launch of that grid, too, as in the
        port for SophGo's chips."""
        grid = tuple(grid) if isinstance(grid, (tuple, list)) else (grid,)
        if grid == (1,):
            return self

        def launch(*args, **kwargs):
            symbols, values = {}, self.arranged(args, kwargs)
            for index in self.inputs:
                self.checks[index].memory(values[index], symbols)
            for extents in self.program.launches:
                wanted = tuple(evaluate(e, symbols) for e in extents)
                if wanted != grid:
                    raise TileError(f"{self.program.name} is launched over {wanted} blocks, not {grid}")
            return self(*args, **kwargs)
        return launch

    # What it is made of

    @property
    def kernel_source(self):
        return self.get_kernel_source()

    @property
    def host_source(self):
        return self.get_host_source()

    def get_kernel_source(self, kernel_only=True):
        return engine.source(self.code, self.program)

    def get_host_source(self):
        """The part that runs on the host, of targets whose vendor's tools take one; of others the program's text."""
        host = native.HOST_STAGES.get(native.our_name(self.target))
        return self.code.show(host) if host else self.program.text

    def cost(self, **sizes):
        """(operations, bytes of arguments) of a run, counted in the program; sizes that T.dynamic left open by name."""
        return engine.cost(self.code, sizes)

    def show_source(self, which="kernel"):
        print(self.get_host_source() if which == "host" else self.get_kernel_source())

    print_source_code = show_source

    def export_sources(self, kernel_path=None, host_path=None):
        for path, text in ((kernel_path, self.get_kernel_source), (host_path, self.get_host_source)):
            if path:
                with open(path, "w") as file:
                    file.write(text())

    def get_profiler(self, tensor_supply_type=None):
        from .profiler import Profiler, TensorSupplyType
        return Profiler(self, tensor_supply_type or TensorSupplyType.Auto)

    def run_once(self, func=None):
        return self.get_profiler().run_once(func)

    def update_tuner_result(self, latency, config, ref_latency=None):
        self.latency, self.config, self.ref_latency = latency, config, ref_latency
        return self

    def __repr__(self):
        return f"kernel {self.program.name}({', '.join(map(repr, self.params))})"


def axes_of(shape):
    return "1 axis" if len(shape) == 1 else f"{len(shape)} axes"


def results_of(program, out_idx):
    if program.results:
        return list(program.results)
    found = [] if out_idx is None else [out_idx] if isinstance(out_idx, int) else list(out_idx)
    count = len(program.params)
    for index in found:
        if not -count <= index < count:
            raise TileError(f"out_idx {index}: {program.name} has {count} parameters")
    return [index % count for index in found]


def packed_type(param, library):
    """The dtype of a new array for a parameter; two elements in a byte have one of their own in torch."""
    if param.packed is None:
        return param.dtype
    return f"{param.packed}_x2" if library == "torch" and param.packed.is_float else dtype("uint8" if param.packed == "uint4" else "int8")


def evaluate(size, symbols):
    """A size once the symbols are known."""
    if not isinstance(size, Expr):
        return size
    if isinstance(size, Name):
        return symbols[size.name]
    return eval(size.text(), {"maximum": max, "minimum": min}, symbols)


class Check:
    """What one argument must be."""

    def __init__(self, kernel, param, device):
        """device: of the kernel; None where it follows its arguments."""
        self.kernel, self.param, self.name, self.device = kernel, param, param.name, device
        self.later = not param.is_scalar and any(isinstance(s, Expr) and not isinstance(s, Name) for s in param.shape)

    def fail(self, message):
        raise TileError(f"{self.kernel}: argument '{self.name}' {message}")

    def wanted(self):
        return f"a {self.param.dtype} array of shape ({', '.join(map(str, self.param.shape))})"

    def memory(self, value, symbols, look=memory_of):
        if self.param.is_scalar:
            return self.scalar(value)
        if value is None:
            self.fail(f"is None; {self.wanted()} is needed")
        found = look(value)
        if found is None:
            self.fail(f"is {value!r} ({type(value).__name__}); {self.wanted()} is needed")
        if found.dtype != self.param.dtype and not self.same_bits(found.dtype):
            self.fail(f"is {found.dtype}; {self.param.dtype} is needed")
        if found.device not in (None, "cpu", self.device or "cuda"):
            self.fail(f"is on the device '{found.device}'; {self.where()}")
        self.check_shape(found, symbols)
        if found.strides is not None:
            self.check_strides(found, symbols)
        if found.is_readonly and self.param.is_written:
            self.fail("is written by the kernel and may only be read; let the kernel make it, by out_idx")
        return found

    def where(self):
        if self.device is None:
            return "kernels follow arguments on the CPU and on the first GPU, 'cuda'"
        return f"this kernel runs on {'the first GPU' if self.device == 'cuda' else self.device.upper()}"

    def same_bits(self, type_):
        if self.param.packed:
            return type_ in ("int8", "uint8", f"{self.param.packed}_x2")
        return {str.__str__(self.param.dtype), type_} in ({"bool", "uint8"}, {"bool", "int8"})

    def scalar(self, value):
        if not isinstance(value, (int, float)) and not hasattr(value, "item"):
            self.fail(f"is {value!r}; a number is needed ({self.param.dtype})")
        return value.item() if hasattr(value, "item") else value

    def check_shape(self, found, symbols):
        if len(found.shape) != len(self.param.shape):
            self.fail(f"has {axes_of(found.shape)}, shape {tuple(found.shape)}; {self.wanted()} is needed")
        for axis, (size, actual) in enumerate(zip(self.param.shape, found.shape)):
            if isinstance(size, Expr):
                if isinstance(size, Name) and symbols.setdefault(size.name, actual) != actual:
                    self.fail(f"has size {actual} along axis {axis}, but {size.name} is {symbols[size.name]} by another argument")
            elif size != actual:
                self.fail(f"has shape {tuple(found.shape)}, {actual} along axis {axis}; {self.wanted()} is needed")

    def check_strides(self, found, symbols):
        wanted = [evaluate_or_none(s, symbols) for s in self.param.stride] if self.param.stride else row_major(found.shape)
        for symbol, actual in zip(self.param.stride or (), found.strides):
            if isinstance(symbol, Name):
                symbols.setdefault(symbol.name, actual)
        for size, stride, actual in zip(found.shape, wanted, found.strides):
            if size > 1 and stride is not None and stride != actual:
                self.fail(f"has strides {tuple(found.strides)}; {tuple(wanted)} are needed: make it contiguous")

    def finish(self, found, symbols):
        """Checks sizes that are computed from symbols, once all of those are known; None is an array that is yet to be made."""
        if found is None:
            return
        for axis, (size, actual) in enumerate(zip(self.param.shape, found.shape)):
            if isinstance(size, Expr) and evaluate(size, symbols) != actual:
                self.fail(f"has size {actual} along axis {axis}; {size} = {evaluate(size, symbols)} is needed")

    def sizes(self, symbols):
        try:
            return tuple(evaluate(s, symbols) for s in self.param.shape)
        except (KeyError, NameError) as missing:
            self.fail(f"is made by the kernel, but its size {missing} is not that of any argument")


def row_major(shape):
    strides, total = [], 1
    for size in reversed(shape):
        strides.insert(0, total)
        total *= size
    return strides


def evaluate_or_none(size, symbols):
    try:
        return evaluate(size, symbols)
    except (KeyError, NameError):
        return None

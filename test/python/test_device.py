"""Devices, streams and the submodules that stand for hardware and other processes that are not here."""

import threading
import unittest

import fake_gpus
import zellige.core as mx


def on_thread(function):
    """What the function returns or raises on another thread."""
    box = []

    def run():
        try:
            box.append(function())
        except Exception as e:
            box.append(e)

    t = threading.Thread(target=run)
    t.start()
    t.join()
    return box[0]


class Devices(unittest.TestCase):
    def test_device(self):
        d = mx.Device(mx.cpu)
        self.assertEqual((repr(d), str(d), d.type), ("Device(cpu, 0)", "Device(cpu, 0)", mx.cpu))
        self.assertEqual(repr(mx.Device(type=mx.gpu, index=3)), "Device(gpu, 3)")
        self.assertRaises(TypeError, mx.Device)
        self.assertRaises(TypeError, mx.Device, "cpu")
        self.assertRaises(TypeError, mx.Device, mx.Device(mx.cpu))

    def test_equality(self):
        d = mx.Device(mx.cpu)
        self.assertTrue(d == mx.cpu and mx.cpu == d and d == mx.Device(mx.cpu) and not d != mx.cpu)
        self.assertTrue(d != mx.gpu and mx.gpu != d and d != mx.Device(mx.cpu, 1) and mx.cpu != mx.gpu)
        self.assertFalse(d == 0 or mx.cpu == 0 or mx.cpu == "cpu")
        self.assertEqual(len({d, mx.cpu, mx.Device(mx.cpu, 0)}), 1)

    def test_types(self):
        self.assertEqual(list(mx.DeviceType), [mx.DeviceType.cpu, mx.DeviceType.gpu])
        self.assertIs(mx.cpu, mx.DeviceType.cpu)
        self.assertEqual((repr(mx.cpu), str(mx.gpu), mx.gpu.name), ("DeviceType.cpu", "DeviceType.gpu", "gpu"))

    def test_default(self):
        self.assertEqual(mx.default_device(), mx.cpu)
        mx.set_default_device(mx.Device(mx.cpu))
        mx.set_default_device(device=mx.cpu)
        self.assertEqual(mx.default_device(), mx.Device(mx.cpu))
        self.assertRaises(TypeError, mx.set_default_device, "cpu")
        self.assertRaises(ValueError, mx.set_default_device, mx.Device(mx.cpu, 1))

    @unittest.skipIf(mx.is_available(mx.gpu), "there is a GPU")
    def test_no_gpu(self):
        a = mx.array(1.0)
        for use in (
            lambda: mx.set_default_device(mx.gpu),
            lambda: mx.default_stream(mx.gpu),
            lambda: mx.new_stream(mx.gpu),
            lambda: mx.new_thread_unsafe_stream(mx.gpu),
            lambda: mx.stream(mx.gpu).__enter__(),
            lambda: mx.synchronize(mx.gpu),
            lambda: mx.add(a, a, stream=mx.gpu),
            lambda: mx.add(a, a, stream=mx.new_thread_local_stream(mx.gpu)),
        ):
            with self.assertRaisesRegex(ValueError, r"there is no Device\(gpu, 0\) here \(cuda: .*"):
                use()
        self.assertEqual(mx.default_device(), mx.cpu)
        self.assertEqual(mx.device_count(mx.gpu), 0)
        self.assertEqual(mx.device_info(mx.gpu), {})

    def test_default_gpu(self):
        """Kernels in CUDA C++ run on GPUs alone: they say where a call without a stream goes."""
        script = """
import threading
import zellige.core as mx

def ran():
    kernel = mx.fast.cuda_kernel(name="one", input_names=["a"], output_names=["y"], source="y[0] = a[0];")
    try:
        mx.eval(kernel(inputs=[mx.ones(3) + 1], grid=(1, 1, 1), threadgroup=(1, 1, 1), output_shapes=[(1,)],
                       output_dtypes=[mx.float32]))
        mx.synchronize()
        return "gpu"
    except ValueError:
        return "cpu"

def elsewhere():
    box = []
    t = threading.Thread(target=lambda: box.append(ran()))
    t.start()
    t.join()
    return box[0]

go, wait = threading.Event(), threading.Event()
late = []
def before():
    late.append(ran())
    wait.set()
    go.wait()
    late.append(ran())
old = threading.Thread(target=before)
old.start()
wait.wait()
print(mx.default_device().type.name, ran(), elsewhere())
for d in (mx.gpu, mx.cpu, mx.Device(mx.gpu, 1)):
    mx.set_default_device(d)
    print(mx.default_device().type.name, ran(), elsewhere())
with mx.stream(mx.cpu):
    print(ran())
go.set()
old.join()
print(*late, mx.default_stream(mx.cpu) == mx.default_stream(mx.gpu))
"""
        three = ["gpu"] * 3, ["cpu"] * 3
        rest = three[0] + three[1] + three[0] + ["cpu"]
        self.assertEqual(fake_gpus.words_of(self, script), three[0] + rest + ["gpu", "gpu", "False"])
        self.assertEqual(fake_gpus.words_of(self, script, ZL_DEVICE="cpu"), three[1] + rest + ["cpu", "gpu", "False"])
        self.assertEqual(fake_gpus.words_of(self, script, ZL_DEVICE="cuda:1"), three[0] + rest + ["gpu", "gpu", "False"])

    IS_OPEN = """
import os, sys
import zellige.core as mx
import zellige.mlx

def is_open():
    with open("/proc/self/maps") as file:
        return "libcuda" in file.read()
"""

    def test_default_opens_no_driver(self):
        """Before something is evaluated on the default device, its driver is not opened; programs that say cpu never do."""
        recorded = self.IS_OPEN + """
x = mx.compile(lambda a: mx.exp(a) + 1)(mx.array([1.0, 2.0]))
mx.random.seed(3)
y = mx.grad(lambda a: mx.sum(a * a))(mx.random.normal((3,)))
print(x.shape, mx.array([1, 2]).tolist(), mx.add(x, 1, stream=mx.cpu).dtype, is_open())
"""
        self.assertEqual(fake_gpus.words_of(self, recorded + "mx.eval(x)\nprint(is_open())")[-2:], ["False", "True"])
        self.assertEqual(fake_gpus.words_of(self, recorded + "print(mx.default_device(), is_open())")[-4:],
                         ["False", "Device(gpu,", "0)", "True"])
        said = self.IS_OPEN + """
a = mx.add(mx.array([1.0, 2.0], dtype=mx.float32), 1, stream=mx.cpu)
print(a.tolist(), is_open())
mx.set_default_device(mx.cpu)
print((mx.ones(3) + 1).tolist(), mx.default_device(), mx.default_stream(mx.cpu).device, is_open())
mx.synchronize()
with mx.stream(mx.cpu):
    print(mx.arange(3).tolist(), is_open())
"""
        self.assertEqual([word for word in fake_gpus.words_of(self, said) if word in ("True", "False")], ["False"] * 3)

    def test_driver_that_finds_nothing(self):
        for down in ({"FAKE_CUDA_DOWN": "1"}, {"FAKE_CUDA_DEVICES": "0"}):
            script = "import zellige.core as mx; print((mx.ones(2) + 1).tolist(), mx.default_device(), mx.device_count(mx.gpu))"
            self.assertEqual(fake_gpus.words_of(self, script, **down), ["[2.0,", "2.0]", "Device(cpu,", "0)", "0"])

    def test_fork_before_the_driver_is_opened(self):
        script = self.IS_OPEN + """
x = mx.array([1.0, 2.0]) + 1
for turn in range(2):
    child = os.fork()
    if not child:
        print(x.tolist(), mx.default_device(), is_open(), flush=True)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
print(is_open(), x.tolist(), is_open())
"""
        child = ["[2.0,", "3.0]", "Device(gpu,", "0)", "True"]
        self.assertEqual(fake_gpus.words_of(self, script), child * 2 + ["False", "[2.0,", "3.0]", "True"])

    def test_what_is_here(self):
        self.assertTrue(mx.is_available(mx.cpu))
        self.assertFalse(mx.is_available(mx.Device(mx.cpu, 1)) or mx.is_available(mx.Device(mx.cpu, -1)))
        self.assertEqual(mx.device_count(mx.cpu), 1)
        for arguments in ({}, {"d": None}, {"d": mx.cpu}, {"d": mx.Device(mx.cpu)}):
            info = mx.device_info(**arguments)
            self.assertTrue(info["device_name"] and info["architecture"] and info["memory_size"] > 0)
        for use in (mx.is_available, mx.device_count, mx.device_info):
            self.assertRaises(TypeError, use, 3)
        self.assertRaises(TypeError, mx.device_count, mx.Device(mx.cpu))


class Streams(unittest.TestCase):
    def test_streams(self):
        s, t = mx.default_stream(mx.cpu), mx.new_stream(mx.cpu)
        self.assertEqual(s, mx.default_stream(mx.Device(mx.cpu)))
        self.assertNotEqual(s, t)
        self.assertEqual((s.device, t.device), (mx.cpu, mx.cpu))
        self.assertRegex(repr(t), r"^Stream\(Device\(cpu, 0\), \d+\)$")
        self.assertRaises(TypeError, mx.Stream)
        self.assertRaises(TypeError, mx.new_stream, None)
        self.assertFalse(s == 1)

    def test_ops_take_streams(self):
        a = mx.array([1, 2])
        streams = [None, mx.cpu, mx.Device(mx.cpu), mx.default_stream(mx.cpu), mx.new_stream(mx.cpu)]
        streams += [mx.new_thread_local_stream(mx.cpu), mx.new_thread_unsafe_stream(mx.cpu)]
        for s in streams:
            self.assertEqual(mx.add(a, a, stream=s).tolist(), [2, 4])
            mx.synchronize(s)
        for s in (3, "cpu", object()):
            self.assertRaises(TypeError, lambda: mx.add(a, a, stream=s))
            self.assertRaises(TypeError, mx.synchronize, s)

    def test_synchronize_says_what_failed(self):
        singular = mx.array([[1.0, 2.0], [2.0, 4.0]])
        try:
            mx.eval(mx.linalg.inv(mx.eye(2)))
        except RuntimeError as lapack:
            self.skipTest(str(lapack))
        a = mx.linalg.inv(singular)
        mx.async_eval(a)
        self.assertRaisesRegex(RuntimeError, "singular", mx.synchronize)
        mx.synchronize()
        self.assertRaisesRegex(RuntimeError, "singular", a.tolist)

    def test_default(self):
        old, s = mx.default_stream(mx.cpu), mx.new_stream(mx.cpu)
        mx.set_default_stream(s)
        self.assertEqual(mx.default_stream(mx.cpu), s)
        self.assertEqual((mx.array([1]) + 1).tolist(), [2])
        mx.set_default_stream(stream=old)
        self.assertEqual(mx.default_stream(mx.cpu), old)
        self.assertRaises(TypeError, mx.set_default_stream, mx.cpu)

    def test_context(self):
        old, s, t = mx.default_stream(mx.cpu), mx.new_stream(mx.cpu), mx.new_stream(mx.cpu)
        with mx.stream(s) as nothing:
            self.assertIsNone(nothing)
            self.assertEqual(mx.default_stream(mx.cpu), s)
            with mx.StreamContext(t):
                self.assertEqual(mx.default_stream(mx.cpu), t)
                self.assertEqual((mx.arange(3) * 2).tolist(), [0, 2, 4])
            self.assertEqual(mx.default_stream(mx.cpu), s)
        with self.assertRaises(KeyError), mx.stream(mx.cpu):
            raise KeyError
        self.assertEqual(mx.default_stream(mx.cpu), old)
        for bad in (None, 3):
            self.assertRaises(TypeError, mx.stream, bad)
            self.assertRaises(TypeError, mx.StreamContext, bad)

    def test_of_another_thread(self):
        s = mx.new_stream(mx.cpu)

        def use():
            with mx.stream(s):
                return mx.arange(3).tolist()

        self.assertIsInstance(on_thread(use), RuntimeError)
        self.assertIsInstance(on_thread(lambda: mx.add(mx.array(1), 1, stream=s)), RuntimeError)
        self.assertIsInstance(on_thread(lambda: mx.set_default_stream(s)), RuntimeError)
        self.assertEqual(use(), [0, 1, 2])

    def test_defaults_of_threads_differ(self):
        other = on_thread(lambda: mx.default_stream(mx.cpu))
        self.assertNotEqual(other, mx.default_stream(mx.cpu))
        self.assertRaises(RuntimeError, mx.synchronize, other)

    def test_for_any_thread(self):
        for make in (mx.new_thread_local_stream, mx.new_thread_unsafe_stream):
            s = make(mx.cpu)

            def use():
                with mx.stream(s):
                    x = mx.arange(10)
                    mx.eval(2 * x)
                    return mx.default_stream(mx.cpu), x.tolist()

            mine, theirs = use(), on_thread(use)
            self.assertEqual(mine[1], theirs[1])
            self.assertNotEqual(mine[0], theirs[0])
            self.assertEqual(use()[0], mine[0])
        self.assertRegex(repr(mx.new_thread_local_stream(mx.cpu)), r"^ThreadLocalStream\(Device\(cpu, 0\), \d+\)$")

    def test_clear(self):
        def use():
            s, t = mx.new_stream(mx.cpu), mx.default_stream(mx.cpu)
            mx.clear_streams()
            try:
                mx.synchronize(s)
            except RuntimeError:
                return mx.default_stream(mx.cpu) != t, (mx.arange(3) + 1).tolist()

        self.assertEqual(on_thread(use), (True, [1, 2, 3]))

    def test_threads_compute(self):
        a = mx.arange(1000)
        results = [None] * 8

        def work(i):
            x = a
            for _ in range(50):
                x = x + i
            results[i] = x.sum().item()

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(results, [499500 + 50_000 * i for i in range(8)])


class Absent(unittest.TestCase):
    def test_metal_and_cuda(self):
        self.assertFalse(mx.metal.is_available() or mx.cuda.is_available())
        self.assertIsNone(mx.metal.start_capture("x.gputrace"))
        self.assertIsNone(mx.metal.stop_capture())
        self.assertEqual(mx.metal.device_info(), {})
        self.assertEqual(mx.metal.set_wired_limit(0), 0)
        self.assertIsInstance(mx.metal.get_active_memory(), int)

    def test_group(self):
        g = mx.distributed.init()
        self.assertEqual((g.rank(), g.size()), (0, 1))
        self.assertRaises(RuntimeError, g.split, 0)
        self.assertRaises(TypeError, mx.distributed.Group)
        self.assertTrue(mx.distributed.is_available() and mx.distributed.is_available("ring"))
        self.assertFalse(mx.distributed.is_available("jaccl") or mx.distributed.is_available("smoke signals"))
        self.assertRaises(RuntimeError, mx.distributed.init, strict=True)
        self.assertRaises(ValueError, mx.distributed.init, backend="smoke signals")
        self.assertRaises(ValueError, mx.distributed.init, all_gather_factory=len)

    def test_collectives(self):
        a, g, d = mx.array([1, 2]), mx.distributed.init(), mx.distributed
        for op in (d.all_sum, d.all_max, d.all_min, d.all_gather, d.sum_scatter):
            self.assertEqual(op(a).tolist(), [1, 2])
            self.assertEqual(op(3, group=g, stream=mx.cpu).item(), 3)
            self.assertRaises(TypeError, op, a, group=3)
            self.assertRaises(TypeError, op, a, g)
        for use in (lambda: d.send(a, 0), lambda: d.recv((2,), mx.float32, src=0), lambda: d.recv_like(a, 0, group=g)):
            self.assertRaises(ValueError, use)


if __name__ == "__main__":
    unittest.main()

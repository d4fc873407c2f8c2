# test_transform.py - gradients, maps, custom functions and checkpoints of Python functions; trees; who keeps what alive.

import gc
import threading
import unittest
import weakref
from collections import namedtuple

import zellige.core as zl


def total(x):
    return (x * x * x).sum()


class Gradients(unittest.TestCase):
    def test_argnums_and_argnames(self):
        f = lambda x, y, z=1.0: x * y * z
        x, y, z = zl.array(2.0), zl.array(3.0), zl.array(5.0)
        self.assertEqual(zl.grad(f)(x, y).item(), 3)
        self.assertEqual([g.item() for g in zl.grad(f, argnums=(1, 0))(x, y)], [3, 2])  # in order of the arguments
        self.assertEqual(zl.grad(f, argnames="z")(x, y, z=z)[1]["z"].item(), 6)
        self.assertIsNone(zl.grad(f, argnames="z")(x, y, z=z)[0])
        positional, named = zl.grad(f, argnums=[0, 1], argnames=["z"])(x, y, z=z)
        self.assertEqual([g.item() for g in positional] + [named["z"].item()], [15, 10, 6])

    def test_trees(self):
        Pair = namedtuple("Pair", "a b")
        params = {"pair": Pair(zl.array(2.0), [zl.array(3.0)]), "n": (zl.array([1.0, 2.0]),)}
        g = zl.grad(lambda p: p["pair"].a * p["pair"].b[0] + p["n"][0].sum())(params)
        self.assertIsInstance(g["pair"], Pair)
        self.assertEqual(g["pair"].a.item(), 3)
        self.assertEqual(g["n"][0].tolist(), [1, 1])

    def test_results_besides_the_loss(self):
        f = lambda x: (x * x, {"x": [x, 7, None]}, "text")
        (loss, tree, text), g = zl.value_and_grad(f)(zl.array(3.0))
        self.assertEqual((loss.item(), g.item(), text), (9, 6, "text"))
        self.assertEqual((tree["x"][0].item(), tree["x"][1:]), (3, [7, None]))

    def test_containers_are_as_before(self):
        inner = [zl.array(1.0), zl.array(2.0)]
        first = inner[0]

        def f(tree):
            self.assertIsNot(inner[0], first)  # the caller's list holds what stands for the array
            inner[1] = tree["w"][1] * 10
            return tree["w"][0] * tree["w"][0]

        self.assertEqual(zl.grad(f)({"w": inner})["w"][0].item(), 2)
        self.assertIs(inner[0], first)
        self.assertEqual(inner[1].item(), 20)

        def fails(tree):
            raise KeyError("wrong")

        with self.assertRaises(KeyError):
            zl.grad(fails)({"w": inner})
        self.assertIs(inner[0], first)

    def test_errors(self):
        x = zl.ones(2)
        for make in [lambda: zl.grad(total, argnums=[]), lambda: zl.grad(total, argnums=-1),
                     lambda: zl.grad(total, argnums=[1, 1]), lambda: zl.grad(total, argnums=1)(x),
                     lambda: zl.grad(total, argnames="k")(x), lambda: zl.grad(lambda x: x)(x),
                     lambda: zl.grad(lambda x: (total(x),))(x), lambda: zl.value_and_grad(lambda x: [total(x)])(x),
                     lambda: zl.value_and_grad(lambda x: ())(x), lambda: zl.value_and_grad(lambda x: (1,))(x),
                     lambda: zl.grad(total)(1.0), lambda: zl.grad(total)([x, "text"]),
                     lambda: zl.vjp(total, [x], []), lambda: zl.vjp(lambda x: x, [x], [zl.ones(3)]),
                     lambda: zl.jvp(total, [x], []), lambda: zl.jvp(total, [x], [zl.ones(3)])]:
            with self.assertRaises(ValueError):
                make()
        for make in [lambda: zl.grad(3), lambda: zl.vmap(total, in_axes=None), lambda: zl.vjp(3, [x], [x]),
                     lambda: zl.jvp(lambda x: 1.0, [x], [x]), lambda: zl.grad(), lambda: zl.custom_function(3)]:
            with self.assertRaises(TypeError):
                make()

    def test_inside_each_other(self):
        x = zl.array([1.0, 2.0])
        self.assertEqual(zl.vmap(zl.grad(lambda x: x * x * x))(x).tolist(), [3, 12])
        self.assertEqual(zl.grad(lambda x: zl.grad(total)(x).sum())(x).tolist(), [6, 12])
        self.assertEqual(zl.jvp(zl.grad(total), [x], [zl.array([1.0, 0.0])])[1][0].tolist(), [6, 0])
        self.assertEqual(zl.grad(lambda x: zl.vmap(total)(x.reshape(1, 2)).sum())(x).tolist(), [3, 12])

    def test_evaluation_inside(self):
        def f(x):
            y = x * 3
            zl.eval(y)
            return (y * y).sum() if y.sum().item() > 0 else y.sum()

        self.assertEqual(zl.grad(f)(zl.array([1.0, 2.0])).tolist(), [18, 36])
        with self.assertRaises(ValueError):
            zl.vmap(f)(zl.ones((2, 2)))
        with self.assertRaises(ValueError):
            zl.grad(lambda x: zl.async_eval(x * 2))(zl.array(1.0))


class Maps(unittest.TestCase):
    def test_axes_of_trees(self):
        a, b = zl.arange(6.0).reshape(2, 3), zl.arange(6.0).reshape(3, 2)
        y = zl.vmap(lambda d: d["a"] + d["b"], in_axes={"a": 0, "b": 1})({"a": a, "b": b})
        self.assertTrue(zl.array_equal(y, a + b.T))
        y, z = zl.vmap(lambda a, b: (a @ b, a), in_axes=(0, None), out_axes=(0, 1))(a, b)
        self.assertTrue(zl.array_equal(y, a @ b) and zl.array_equal(z, a.T))
        self.assertTrue(zl.array_equal(zl.vmap(lambda x: x * 2, in_axes=-1, out_axes=-1)(a), a * 2))

    def test_errors(self):
        x = zl.ones((2, 3))
        for make in [lambda: zl.vmap(lambda x: x, in_axes=2)(x), lambda: zl.vmap(lambda x: x, out_axes=2)(x),
                     lambda: zl.vmap(lambda x, y: x)(x, zl.ones(3)), lambda: zl.vmap(lambda x: x, in_axes="a")(x),
                     lambda: zl.vmap(lambda x, y: x, in_axes=(None, None))(x, x), lambda: zl.vmap(lambda x: 1.0)(x),
                     lambda: zl.vmap(lambda x: x)([x, 1]), lambda: zl.vmap(lambda x, y: x, in_axes=[0, 0])(x, x)]:
            with self.assertRaises(ValueError):
                make()


class Customs(unittest.TestCase):
    def setUp(self):
        @zl.custom_function
        def f(x, y):
            return {"p": zl.sin(x) * y}

        self.f = f

    def test_rules(self):
        @self.f.vjp
        def rule(primals, cotangent, output):
            self.assertEqual(len(primals), 2)
            return cotangent["p"] * 10, output["p"] * 0 + 20

        @self.f.jvp
        def rule(primals, tangents):
            return {"p": tangents[0] * 7}

        @self.f.vmap
        def rule(inputs, axes):
            self.assertEqual(axes, (0, None))
            return {"p": inputs[0] + 1}, {"p": 0}

        x, y = zl.array(1.0), zl.array(2.0)
        f = lambda x, y: self.f(x, y)["p"]
        self.assertEqual([g.item() for g in zl.grad(f, argnums=(0, 1))(x, y)], [10, 20])
        self.assertEqual(zl.jvp(f, [x, y], [x, y])[1][0].item(), 7)
        self.assertEqual(zl.vmap(f, in_axes=(0, None))(zl.zeros(2), y).tolist(), [1, 1])

    def test_default_rules_and_errors(self):
        self.f.vmap(lambda inputs, axes: inputs[0])
        x, y = zl.array(0.0), zl.array(2.0)
        f = lambda x, y: self.f(x, y)["p"]
        self.assertEqual(zl.grad(f)(x, y).item(), 2)
        self.assertEqual(zl.jvp(f, [x, y], [y, x])[1][0].item(), 4)
        with self.assertRaises(ValueError):
            zl.vmap(f)(zl.ones(2), zl.ones(2))
        self.f.vjp(lambda *args: 1 / 0)
        with self.assertRaises(ZeroDivisionError):
            zl.grad(f)(x, y)

    def test_none_is_zero(self):
        g = zl.custom_function(lambda x, n, k=None: x * n if k is None else x * k)
        g.vjp(lambda primals, cotangent, output, k=None: (cotangent * 5, None))
        self.assertEqual(zl.grad(g)(zl.array(1.0), zl.array(2)).item(), 5)
        self.assertEqual(zl.grad(g)(zl.array(1.0), zl.array(2), k=zl.array(3.0)).item(), 5)

    def test_checkpoints(self):
        calls = []

        def layer(x, tree):
            calls.append(0)
            return zl.exp(x) * tree["k"][0], "text"

        f = lambda x: zl.checkpoint(layer)(x, {"k": [zl.array(2.0)]})[0].sum()
        g = zl.grad(f)(zl.array([0.0, 1.0]))
        self.assertAlmostEqual(g.tolist()[1], 2 * 2.718281828, places=5)
        self.assertEqual(len(calls), 2)


class Objects(unittest.TestCase):
    def test_attributes_are_those_of_the_function(self):
        def named(x: int) -> int:
            "its text"

        for f in [zl.compile(named), zl.grad(named), zl.vmap(named), zl.checkpoint(named)]:
            self.assertEqual((f.__name__, f.__doc__, f.__module__), ("named", "its text", __name__))

    def test_compile(self):
        self.assertEqual(zl.compile(lambda x, y=1: x * y, inputs=[], outputs=[], shapeless=True)(zl.array(2), y=3).item(), 6)
        with self.assertRaises(ValueError):
            zl.compile(lambda x: x)(object())
        zl.disable_compile()
        zl.enable_compile()

    def test_depends(self):
        x, y = zl.ones(2), zl.zeros(3)
        self.assertEqual(zl.depends(x, y).tolist(), [1, 1])
        self.assertEqual([a.tolist() for a in zl.depends([x, y], [y])], [[1, 1], [0, 0, 0]])
        self.assertIsInstance(zl.depends([x], []), list)

    def test_eval_of_trees(self):
        x = zl.ones(2) + 1
        self.assertIsNone(zl.eval({"a": [x, 3, "text", None]}, zl.random.state))
        zl.async_eval([x + 1])
        zl.eval()
        deep = x
        for _ in range(100000):
            deep = [deep]
        with self.assertRaises(RecursionError):
            zl.eval(deep)
        while isinstance(deep, list):
            deep = deep[0]


class Lives(unittest.TestCase):
    class Thing:
        pass

    def check_dies(self, make):
        thing = self.Thing()
        watch = weakref.ref(thing)
        make(thing)
        del thing
        gc.collect()
        for _ in range(3):
            pass  # pending calls run between instructions
        self.assertIsNone(watch())

    def test_cycles_are_collected(self):
        def make(thing):
            def f(x):
                return x if thing else thing.f

            thing.f = [zl.grad(f), zl.vmap(f), zl.compile(f, inputs=[thing]), zl.checkpoint(f)]
            thing.g = zl.custom_function(f).vjp(f).jvp(f).vmap(f)

        self.check_dies(make)

    def test_closures_go_with_the_graph(self):
        def lazily(thing):
            zl.checkpoint(lambda x: x * 2 if thing else x)(zl.ones(3))

        def evaluated(thing):
            f = zl.custom_function(lambda x: x * 2 if thing else x).vjp(lambda *a: thing)
            self.y = f(zl.ones(3))
            zl.eval(self.y)

        def elsewhere(thing):
            f = zl.checkpoint(lambda x: x * 2 if thing else x)
            y = f(zl.ones(3))
            thread = threading.Thread(target=lambda: zl.eval(y))
            thread.start()
            thread.join()
            zl.async_eval(f(zl.ones(4)))
            zl.synchronize()

        for make in (lazily, evaluated, elsewhere):
            self.check_dies(make)

    def test_failures_keep_nothing(self):
        def make(thing):
            def f(x):
                thing.x = x
                raise ValueError

            for transform in (zl.grad, zl.vmap, zl.checkpoint):
                with self.assertRaises(ValueError):
                    transform(f)(zl.ones(2))

        self.check_dies(make)

    def test_memory_comes_back(self):
        x = zl.ones(100000)
        zl.eval(x)
        before = zl.get_active_memory()
        for _ in range(3):
            zl.eval(zl.value_and_grad(total)(x))
            zl.eval(zl.vmap(zl.grad(lambda x: x * x))(x))
            zl.eval(zl.grad(lambda x: zl.checkpoint(total)(x))(x))
        gc.collect()
        self.assertEqual(zl.get_active_memory(), before)


if __name__ == "__main__":
    unittest.main()

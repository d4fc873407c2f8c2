"""Groups of processes: each op, dtype and layout against NumPy, derivatives, order, and errors instead of hangs.

Ranks are processes of group_worker.py. Where this is root with iproute2, the ranks of some tests have a network namespace each.
"""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import fake_gpus

HERE = pathlib.Path(__file__).parent
WORKER = str(HERE / "group_worker.py")
LONG = os.environ.get("ZL_LONG") == "1"
WAIT = 120  # s, for what should take a few


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class Ranks:
    """Processes of one group, whose output is read when they have ended."""

    def __init__(self, case, size, seed=1, links=1, prefix=None, addresses=None, worker=WORKER, timeout=20, **more):
        self.folder = tempfile.TemporaryDirectory()
        hosts = pathlib.Path(self.folder.name, "hosts.json")
        if addresses:
            lists = [[f"{a}:{5000 + k}" for k in range(links)] for a in addresses]
        else:
            ports = free_ports(size * links)
            lists = [[f"127.0.0.1:{ports[i * links + k]}" for k in range(links)] for i in range(size)]
        hosts.write_text(json.dumps(lists))
        self.addresses = lists
        self.process = []
        for rank in range(size):
            env = dict(os.environ, MLX_HOSTFILE=str(hosts), MLX_RANK=str(rank), ZL_THREADS="1", ZL_GROUP_TIMEOUT=str(timeout), **more)
            command = (prefix(rank) if prefix else []) + [sys.executable, worker, case, str(seed)]
            self.process.append(subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                                 stderr=subprocess.STDOUT, text=True))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for p in self.process:
            with contextlib.suppress(ProcessLookupError):
                p.send_signal(signal.SIGCONT)
                p.kill()
            p.communicate()
        self.folder.cleanup()

    def end(self, rank):
        out, _ = self.process[rank].communicate(timeout=WAIT)
        return self.process[rank].returncode, out

    def results(self, test):
        ends = [self.end(r) for r in range(len(self.process))]
        for rank, (code, out) in enumerate(ends):
            test.assertEqual(code, 0, f"rank {rank}: {out}")
        return [json.loads(out.strip().splitlines()[-1])["result"] for _, out in ends]


class Values(unittest.TestCase):
    def agree(self, case, size, **more):
        with Ranks(case, size, **more) as ranks:
            results = ranks.results(self)
        self.assertEqual(len(set(results)), 1, results)
        return results[0]

    def test_ops_dtypes_and_layouts(self):
        for size in (2, 3, 4) if LONG else (4,):
            first = self.agree("values", size, seed=7)
            self.assertEqual(first, self.agree("values", size, seed=7, links=2) if LONG else first)

    def test_large_and_from_run_to_run(self):
        self.assertEqual(self.agree("large", 3), self.agree("large", 3))

    def test_neighbours(self):
        self.agree("neighbours", 2, seed=2)
        self.agree("neighbours", 4, seed=3, links=2)

    def test_order(self):
        self.agree("order", 4)
        self.agree("order", 3, ZL_GROUP_CHECK="1")

    def test_derivatives(self):
        self.agree("derivatives", 3)

    def test_training_as_in_one_process(self):
        self.agree("training", 4)

    def test_donation(self):
        self.agree("donation", 2)

    def test_a_rank_ends_after_its_part(self):
        for seed in range(50 if LONG else 3):
            with Ranks("ends", 4, seed=seed) as ranks:
                for r in range(4):
                    code, out = ranks.end(r)
                    self.assertEqual(code, 0, out)

    def test_without_a_launcher(self):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("MLX_", "OMPI_", "PMIX_", "SLURM_"))}
        got = subprocess.run([sys.executable, WORKER, "values", "1"], env=env, capture_output=True, text=True, timeout=WAIT)
        self.assertEqual(got.returncode, 3)
        self.assertIn("zellige launch", got.stdout)

    def test_under_torchrun(self):
        port = free_ports(1)[0]
        env = [dict(os.environ, RANK=str(r), WORLD_SIZE="3", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port - 1)) for r in range(3)]
        ranks = [subprocess.Popen([sys.executable, WORKER, "training", "1"], env=e, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True) for e in env]
        for p in ranks:
            out, _ = p.communicate(timeout=WAIT)
            self.assertEqual(p.returncode, 0, out)


class Failures(unittest.TestCase):
    """Each survivor's error names the op, its number and the rank that is missing, and comes within the timeout."""

    def after(self, case, size, harm, victim, words, timeout=6, **more):
        with Ranks(case, size, timeout=timeout, **more) as ranks:
            for r in range(size) if case == "victim" else ():
                self.assertEqual(ranks.process[r].stdout.readline(), "running\n")
            time.sleep(0.3 if case == "victim" else 0)
            begin = time.monotonic()
            harm(ranks)
            for r in range(size):
                if r == victim:
                    continue
                code, out = ranks.end(r)
                self.assertEqual(code, 3, out)
                for word in words:
                    self.assertRegex(out, word, f"rank {r}")
            # From the call on: a rank is given the timeout, and whoever came later as much again.
            self.assertLess(time.monotonic() - begin, 2 * timeout + 10)

    def test_a_rank_is_killed(self):
        for _ in range(50 if LONG else 1):
            self.after("victim", 4, lambda ranks: ranks.process[2].kill(), 2, ("all_sum number ", "rank 2 has ended"))

    def test_a_rank_is_stopped(self):
        for _ in range(50 if LONG else 1):
            self.after("victim", 4, lambda ranks: ranks.process[1].send_signal(signal.SIGSTOP), 1,
                       ("all_sum number ", "ranks? ([0-9], )*1(, [0-9])* did not come"))  # others may wait for it in the sum before

    def test_a_rank_never_evaluates(self):
        for _ in range(50 if LONG else 1):
            self.after("absent", 4, lambda ranks: None, 1, ("all_max number 2", "rank 1 did not come"))

    def test_a_rank_never_sends(self):
        with Ranks("unsent", 4, timeout=3) as ranks:
            code, out = ranks.end(1)
            self.assertEqual(code, 3, out)
            self.assertIn("rank 0 did not come to recv", out)

    def test_ctrl_c_while_others_are_awaited(self):
        port = free_ports(1)[0]
        env = dict(os.environ, RANK="0", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port - 1), ZL_GROUP_TIMEOUT="100")
        with subprocess.Popen([sys.executable, WORKER, "training", "1"], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True) as rank:
            end = time.monotonic() + WAIT
            while time.monotonic() < end:  # until it listens; who connects without a word is a stranger
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                    break
                time.sleep(0.05)
            rank.send_signal(signal.SIGINT)
            try:
                out, _ = rank.communicate(timeout=30)
            finally:
                rank.kill()
            self.assertNotEqual(rank.returncode, 0, out)
            self.assertIn("KeyboardInterrupt", out)

    def test_unequal_shapes(self):
        for case in ("unequal", "large_unequal") * (25 if LONG else 1):
            self.after(case, 4, lambda ranks: None, None, ("all_sum number 1", "ranks do not call the same"), timeout=20)

    def test_check_shows_both_calls(self):
        self.after("unequal", 3, lambda ranks: None, None,
                   ("rank 0 calls all_sum number 1 of 3 elements of float32; rank 1 calls all_sum number 1 of 4 elements of float32",),
                   timeout=20, ZL_GROUP_CHECK="1")

    def test_strangers(self):
        """Garbage on the ports while ranks find each other, and a process without the token."""
        with Ranks("training", 3, ZL_GROUP_TOKEN="right") as ranks:
            sent = 0
            end = time.monotonic() + 2
            while time.monotonic() < end and sent < 20:
                for (address,) in ranks.addresses:
                    host, port = address.rsplit(":", 1)
                    with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 0.2) as s:
                        s.sendall((b"ZLGROUP1" if sent % 2 else b"GET / HTTP/1.1\r\n\r\n") + os.urandom(200))
                        sent += 1
            ranks.results(self)

    def test_another_token(self):
        with Ranks("training", 2, timeout=3, prefix=lambda rank: ["env", f"ZL_GROUP_TOKEN=of-{rank}"]) as ranks:
            for r in range(2):
                self.assertEqual(ranks.end(r)[0], 3)


@unittest.skipUnless(os.geteuid() == 0 and shutil.which("ip"), "needs root and iproute2")
class Namespaces(unittest.TestCase):
    """Each rank has a network namespace of its own, connected by a bridge."""

    SIZE = 4
    made = 0

    def setUp(self):
        Namespaces.made += 1  # names are free again only a while after they were removed
        self.tag = f"zl{os.getpid() % 10000}{'abcdefgh'[Namespaces.made]}"
        self.addCleanup(self.remove)
        self.run_ip("link", "add", self.tag, "type", "bridge")
        self.run_ip("link", "set", self.tag, "up")
        for r in range(self.SIZE):
            name = f"{self.tag}n{r}"
            self.run_ip("netns", "add", name)
            self.run_ip("link", "add", f"{self.tag}v{r}", "type", "veth", "peer", "name", "eth0", "netns", name)
            self.run_ip("link", "set", f"{self.tag}v{r}", "master", self.tag, "up")
            self.run_ip("-n", name, "addr", "add", f"10.77.0.{r + 1}/24", "dev", "eth0")
            self.run_ip("-n", name, "link", "set", "eth0", "up")
            self.run_ip("-n", name, "link", "set", "lo", "up")

    def run_ip(self, *words):
        got = subprocess.run(["ip", *words], capture_output=True, text=True)
        if got.returncode and "permitted" in got.stderr:
            self.skipTest("this container may not make network namespaces: " + got.stderr.strip())
        self.assertEqual(got.returncode, 0, (words, got.stderr))

    def remove(self):
        for r in range(self.SIZE):
            subprocess.run(["ip", "netns", "del", f"{self.tag}n{r}"], capture_output=True)
        subprocess.run(["ip", "link", "del", self.tag], capture_output=True)

    def ranks(self, case, **more):
        return Ranks(case, self.SIZE, prefix=lambda r: ["ip", "netns", "exec", f"{self.tag}n{r}"],
                     addresses=[f"10.77.0.{r + 1}" for r in range(self.SIZE)], **more)

    def test_values(self):
        with self.ranks("values", seed=11) as ranks:
            self.assertEqual(len(set(ranks.results(self))), 1)

    def test_a_link_goes_down(self):
        with self.ranks("victim", timeout=6) as ranks:
            for p in ranks.process:
                self.assertEqual(p.stdout.readline(), "running\n")
            self.run_ip("link", "set", f"{self.tag}v3", "down")
            for r in range(self.SIZE):
                code, out = ranks.end(r)
                self.assertEqual(code, 3, out)
                self.assertRegex(out, r"all_sum number \d+", f"rank {r}")
                self.assertIn("rank 3 did not come" if r != 3 else "ranks 0, 1, 2 did not come", out, f"rank {r}")


def mpirun():
    """The words that run ranks under Open MPI; None: it is not here."""
    if not shutil.which("mpirun"):
        return None
    said = subprocess.run(["mpirun", "--version"], capture_output=True, text=True).stdout
    if "Open MPI" not in said and "OpenRTE" not in said:
        return None
    return ["mpirun", "--oversubscribe", "--bind-to", "none"] + (["--allow-run-as-root"] if os.geteuid() == 0 else [])


def running_children(pid):
    """How many children of a process have not ended; those that it has not waited for have."""
    count = 0
    for status in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it ended
            state, parent = status.read_text().rpartition(")")[2].split()[:2]
            count += int(parent) == pid and state != "Z"
    return count


@unittest.skipUnless(mpirun(), "needs Open MPI")
class Mpi(unittest.TestCase):
    def run_case(self, case, size, seed=1, **more):
        """The exit status, and what was said. mpirun 4.1 now and then crashes, or never ends, after it has ended a job whose rank failed: it is
        ended here once it has no ranks any more, and a status other than 0 is all that is known then."""
        env = dict(os.environ, ZL_THREADS="1", TEST_ENGINE="mpi", OMPI_MCA_mpi_yield_when_idle="1", **more)
        with tempfile.TemporaryFile("w+") as said, subprocess.Popen(
                mpirun() + ["-np", str(size), sys.executable, WORKER, case, str(seed)], env=env, stdin=subprocess.DEVNULL,
                stdout=said, stderr=subprocess.STDOUT) as run:
            end, idle = time.monotonic() + WAIT, 0
            while run.poll() is None:
                idle = 0 if running_children(run.pid) else idle + 1
                if idle > 100 or time.monotonic() > end:
                    run.kill()
                    self.assertGreater(idle, 100, "ranks did not end")
                time.sleep(0.1)
            said.seek(0)
            return run.returncode, said.read()

    def agree(self, case, size, **more):
        code, out = self.run_case(case, size, **more)
        self.assertEqual(code, 0, out)
        results = [json.loads(text)["result"] for text in re.findall(r'\{"rank".*?\}', out)]  # mpirun joins lines
        self.assertEqual(len(results), size, out)
        self.assertEqual(len(set(results)), 1, results)
        return results[0]

    def test_ops_dtypes_and_layouts(self):
        for size in (2, 4) if LONG else (4,):
            self.agree("values", size, seed=5)

    def test_large_and_from_run_to_run(self):
        self.assertEqual(self.agree("large", 3), self.agree("large", 3))

    def test_the_rest(self):
        for case in ("neighbours", "order", "derivatives", "training", "donation", "split"):
            with self.subTest(case):
                self.agree(case, 4)

    def test_check_shows_both_calls(self):
        code, out = self.run_case("unequal", 3, ZL_GROUP_CHECK="1")
        self.assertNotEqual(code, 0)
        self.assertIn("rank 0 calls all_sum number 1 of 3 elements of float32; rank 1 calls all_sum number 1 of 4 elements", out)

    def test_a_rank_never_evaluates(self):
        code, out = self.run_case("absent", 3, ZL_GROUP_TIMEOUT="3")
        self.assertNotEqual(code, 0)
        self.assertIn("all_max number 2", out)

    def test_another_mpi(self):
        code, out = self.run_case("training", 2, ZL_MPI="libc.so.6")
        self.assertNotEqual(code, 0)
        self.assertIn("Open MPI 4.1 or 5", out)


class Nccl(unittest.TestCase):
    """On the driver and the library of test/fake: what they compute, and how they fail, is in test/device/test_nccl_fake.c."""

    def test_groups_split_and_processes_end(self):
        with tempfile.TemporaryDirectory() as folder:
            where = {name: text for name, text in fake_gpus.settings(self).items() if os.environ.get(name) != text}
            with Ranks("split", 4, TEST_ENGINE="nccl", FAKE_NCCL=folder, **where) as ranks:
                ranks.results(self)


if __name__ == "__main__":
    unittest.main()

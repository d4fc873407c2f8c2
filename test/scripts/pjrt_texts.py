#!/usr/bin/env python3
"""pjrt_texts.py BUILD - jaxlib reads and verifies the StableHLO of every op and dtype that the device pjrt renders: a reader other than the
plugins that run it. The texts come by the plugin of test/fake, which compiles few of them and shows all. Skipped without jaxlib."""
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]
build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build").resolve()


def skip(reason):
    print(f"skipped the texts: {reason}\n0 passed, 0 failed, 1 skipped")
    sys.exit(0)


try:
    from jaxlib.mlir import ir
    from jaxlib.mlir._mlir_libs import _jax_mlir_ext
    from jaxlib.mlir.dialects import chlo, stablehlo
except ImportError:  # once: in an environment that has it
    if os.environ.get("ZL_HAS_JAXLIB"):
        skip("jaxlib has no MLIR here")
    found = subprocess.run([ROOT / "tool/python.sh", build, "jaxlib", "numpy"], capture_output=True, text=True)
    if found.returncode:
        skip("jaxlib cannot be installed: " + found.stderr.strip().rsplit("\n")[-1])
    os.execve(found.stdout.strip(), [found.stdout.strip(), *sys.argv], {**os.environ, "ZL_HAS_JAXLIB": "1"})

env = {**os.environ, "ZL_PJRT": str(build / "fake/libpjrt.so"), "ZL_DEVICE": "cpu"}
said = subprocess.run([build / "zellige", "tpu", "compile", "--json", "--program", "ops"], env=env, capture_output=True, text=True, timeout=1200)
programs = [p for p in json.loads(said.stdout)["programs"] if "stablehlo" in p]
failed = 0
with ir.Context() as context:
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    stablehlo.register_dialect(context)
    chlo.register_dialect(context)
    for p in programs:
        try:
            module = ir.Module.parse(p["stablehlo"].rstrip("\0"))
            assert module.operation.verify()
        except Exception as error:  # what jaxlib raises has no common type
            failed += 1
            print(f"FAILED {p['program']} of {p['dtype']}: {str(error)[:300]}")
print(f"{len({p['program'] for p in programs})} ops in {len(programs)} pairs of op and dtype")
if len(programs) < 500:
    failed += 1
    print("FAILED these are too few: is something not rendered any more?")
print(f"{len(programs) - failed} passed, {failed} failed, 0 skipped")
sys.exit(failed > 0)

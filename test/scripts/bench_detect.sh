#!/usr/bin/env bash
# bench_detect.sh BUILD - `zellige bench devices` on trees that look like machines: the right chip, or none.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

zellige=$build/zellige
if ! "$zellige" bench devices >/dev/null 2>&1; then
    skip "detection" "$("$zellige" bench devices 2>&1 | head -n 1)"
    finish
fi

# Making a machine ------------------------------------------------------------------------------------------------

root='' slot=0
machine() { # NAME: an empty tree; what follows is put into it
    root=$tmp/$1 slot=0
    mkdir -p "$root"/{sys/bus/pci/devices,proc/self,etc,sys/devices/system/cpu,sys/fs/cgroup}
    echo 0-3 >"$root/sys/devices/system/cpu/online"
    printf 'Name:\tzellige\nCpus_allowed_list:\t0-3\n' >"$root/proc/self/status"
    echo 0::/ >"$root/proc/self/cgroup"
    arm 0x41 0xd4f
}
arm() { # IMPLEMENTER PART [FEATURES]
    printf 'processor\t: 0\nFeatures\t: %s\nCPU implementer\t: %s\nCPU part\t: %s\n' "${3:-fp asimd}" "$1" "$2" >"$root/proc/cpuinfo"
}
x86() { # FAMILY MODEL NAME FLAGS
    printf 'processor\t: 0\ncpu family\t: %s\nmodel\t\t: %s\nmodel name\t: %s\nflags\t\t: %s\n' "$@" >"$root/proc/cpuinfo"
}
pci() { # COUNT VENDOR DEVICE [CLASS]: so many functions
    local i folder
    for ((i = 0; i < $1; i++)); do
        folder=$(printf '%s/sys/bus/pci/devices/0000:%02x:00.0' "$root" $slot)
        mkdir -p "$folder"
        echo "0x$2" >"$folder/vendor"
        echo "0x$3" >"$folder/device"
        echo "${4:-0x120000}" >"$folder/class"
        slot=$((slot + 1))
    done
}
driver_name() { # NAME: as NVIDIA's driver has it in /proc
    mkdir -p "$root/proc/driver/nvidia/gpus/0000:01:00.0"
    printf 'Model: \t\t %s\nIRQ:   \t\t 10\n' "$1" >"$root/proc/driver/nvidia/gpus/0000:01:00.0/information"
}
kfd() { # NODE SIMDS DEVICE-ID (decimal)
    mkdir -p "$root/sys/class/kfd/kfd/topology/nodes/$1"
    printf 'cpu_cores_count 0\nsimd_count %s\nvendor_id 4098\ndevice_id %s\n' "$2" "$3" >"$root/sys/class/kfd/kfd/topology/nodes/$1/properties"
}

gives() { # PYTHON-CONDITION: on the list d of chips of the last machine, c the first, cpu the last
    "$zellige" bench devices --json --sysroot "$root" | python3 -c "
import json, sys
d = json.load(sys.stdin)
c, cpu = d[0], d[-1]
peak = c['peak_tflops_per_device']
sys.exit(0 if ($1) else repr(d))"
}
is_chip() { # ID CHIPS DEVICES
    gives "len(d) == 2 and (c['chip'], c['chips'], c['devices']) == ('$1', $2, $3)"
}

# Machines --------------------------------------------------------------------------------------------------------

machine v4-8 && pci 4 1ae0 005e
check "TPU v4-8 has four chips" is_chip tpu-v4 4 4

machine v5e-8 && pci 8 1ae0 0063
check "TPU v5e-8" is_chip tpu-v5e 8 8

machine v5p-8 && pci 4 1ae0 0062 && echo TPU_ACCELERATOR_TYPE=v5p-8 >"$root/etc/environment"
check "TPU v5p-8" is_chip tpu-v5p 4 4
check "the environment is evidence too" gives "'TPU_ACCELERATOR_TYPE says v5p-8' in c['evidence']"

machine v6e-8 && pci 8 1ae0 006f && pci 1 1ae0 0042 0x020000 && pci 1 1ae0 001f 0x010802
check "TPU v6e-8 beside Google's network card and disk" is_chip tpu-v6e 8 8
check "the evidence names the id and how many" gives "'matched 1ae0:006f x8' in c['evidence']"
check "v6e has no f32 peak of its own: that of bf16 counts" gives "peak['bf16'] == 918 and peak['f32'] == 918 and peak['tf32'] is None"

machine tpu7x-8 && pci 8 1ae0 0076
check "TPU7x: two devices a chip" is_chip tpu-7x 4 8
check "TPU7x: half a chip's peak for each device" gives "peak['bf16'] == 1153.5 and peak['int8'] is None"

machine v6e-hidden && echo TPU_ACCELERATOR_TYPE=v6e-4 >"$root/etc/environment"
check "a TPU that only the environment names" is_chip tpu-v6e 4 4
machine v5p-hidden && echo TPU_ACCELERATOR_TYPE=v5p-16 >"$root/etc/environment"
check "types of v5p count cores" is_chip tpu-v5p 8 8
machine contradiction && pci 4 1ae0 0063 && echo TPU_ACCELERATOR_TYPE=v6e-4 >"$root/etc/environment"
check "PCI ids are worth more than the environment" is_chip tpu-v5e 4 4
check "and the evidence says that they disagree" gives "'does not fit' in c['evidence']"

machine unknown-tpu && pci 2 1ae0 0099
check "an id that nobody knows is an unknown chip" gives "len(d) == 2 and c['chip'] is None and c['chips'] == 2"
check "an unknown chip has no peaks" gives "all(v is None for v in peak.values())"
machine google-cloud && pci 1 1ae0 0042 0x020000
check "a machine of Google's without a TPU has none" gives "len(d) == 1"

machine h200 && pci 8 10de 2335 0x030200 && driver_name "NVIDIA H200"
check "H200" is_chip h200-sxm 8 8
check "H200's peak" gives "peak['bf16'] == 989.4 and peak['fp8'] == 1979 and peak['f64'] == 67"
machine h200-mig && pci 1 10de 2335 0x030200 && driver_name "NVIDIA H200" && mkdir -p "$root/proc/driver/nvidia/capabilities/gpu0/mig/gi1"
check "a part of an H200 has no peak" gives "c['shared'] and all(v is None for v in peak.values())"
machine h200-one-split && pci 8 10de 2335 0x030200 && driver_name "NVIDIA H200" && mkdir -p "$root/proc/driver/nvidia/capabilities/gpu3/mig/gi1"
check "one of eight that is split: which one we get is not known" gives "c['shared'] and c['chips'] == 8 and peak['bf16'] is None"
machine b300 && pci 8 10de 3182 0x030200 && driver_name "NVIDIA B300 SXM6 AC"
check "B300 with its odd name" is_chip b300 8 8
machine b300-new-id && pci 1 10de ffff 0x030200 && driver_name "NVIDIA B300 SXM6 AC"
check "B300 by its name alone" is_chip b300 1 1
machine a100 && pci 1 10de 20b2 0x030200 && driver_name "NVIDIA A100-SXM4-80GB"
check "A100 is not an A10" is_chip a100-sxm-80 1 1
machine a1000 && pci 1 10de 25b0 0x030000 && driver_name "NVIDIA RTX A1000"
check "a GPU that the table lacks is unknown, not the nearest name" gives "c['chip'] is None and c['name'] == 'NVIDIA RTX A1000'"
machine gb300 && pci 4 10de 31c2 0x030200 && pci 2 15b3 c2d5 0x080100 && mkdir -p "$root/dev/vfio" && touch "$root/dev/vfio/12" "$root/dev/accel0"
check "GB300: a BlueField and device nodes are no TPU" is_chip gb300 4 4

machine mi300x && pci 8 1002 74a1 && kfd 0 0 0 && for i in 1 2 3 4 5 6 7 8; do kfd $i 1216 29857; done
check "MI300X" is_chip mi300x 8 8
machine mi300x-cpx && pci 1 1002 74a1 && kfd 0 0 0 && for i in 1 2 3 4 5 6 7 8; do kfd $i 152 29857; done
check "MI300X in eight parts has no peak" gives "c['shared'] and c['devices'] == 8 and peak['bf16'] is None"
machine mi250x && pci 8 1002 7408
check "MI250X: two devices a chip" is_chip mi250x 4 8
machine gaudi3 && pci 8 1da3 1060
check "Gaudi 3" is_chip gaudi3 8 8
machine bm1684x && pci 3 1f1c 1686
check "BM1684X" is_chip bm1684x 3 3
machine bm1690 && pci 1 1f1c 1690
check "BM1690 has the peaks of its model" gives "c['chip'] == 'bm1690' and not c['is_modelled'] and abs(peak['f16'] - 131.072) < 1e-9 and abs(peak['int8'] - 262.144) < 1e-9"
machine trn2 && pci 16 1d0f 7364
check "Trainium 2: eight cores a chip" is_chip trainium2 16 128
machine m1 && printf 'apple,j274\0apple,t8103\0apple,arm-platform\0' >"$root/proc/device-tree-compatible" &&
    mkdir -p "$root/proc/device-tree" && mv "$root/proc/device-tree-compatible" "$root/proc/device-tree/compatible"
check "Apple M1 by its device tree" is_chip m1 1 1

# CPUs ------------------------------------------------------------------------------------------------------------

machine graviton3 && arm 0x41 0xd40 && echo '150000 100000' >"$root/sys/fs/cgroup/cpu.max"
check "Neoverse V1 alone" gives "len(d) == 1 and cpu['chip'] == 'neoverse-v1'"
check "the control group's part is said" gives "'grants 1.5' in cpu['evidence']"
machine spr && x86 6 143 "Intel(R) Xeon(R) Platinum 8480+" "fpu avx512f avx512_fp16 amx_tile amx_bf16 amx_int8"
check "Sapphire Rapids" gives "cpu['chip'] == 'spr'"
machine spr-hidden && x86 6 143 "Intel(R) Xeon(R) Platinum 8480+" "fpu avx2"
check "one whose features are hidden is not the chip of the table" gives "cpu['chip'] is None and 'Xeon' in cpu['name']"
machine zen5 && x86 26 2 "AMD EPYC 9755" "fpu avx512f avx512_bf16 avx512_vnni"
check "Zen 5" gives "cpu['chip'] == 'zen5'"
machine unknown-cpu && arm 0x99 0x123
check "an unknown CPU is unknown" gives "cpu['chip'] is None"

# The metadata server ----------------------------------------------------------------------------------------------

cat >"$tmp/server.py" <<'END'
import http.server, sys, time
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        time.sleep(1)  # a busy server
        right = self.headers.get("Metadata-Flavor") == "Google" and self.path.endswith("/attributes/tpu-env")
        self.send_response(200 if right else 403)
        self.end_headers()
        self.wfile.write(b"ACCELERATOR_TYPE: 'v6e-8'\nZONE: 'us-east5-b'\n" if right else b"")
    def log_message(self, *_): pass
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
open(sys.argv[1], "w").write(str(server.server_port))
server.handle_request()
END
python3 "$tmp/server.py" "$tmp/port" &
for _ in $(seq 100); do [ -s "$tmp/port" ] && break || sleep 0.05; done
machine metadata && echo "GCE_METADATA_IP=127.0.0.1:$(cat "$tmp/port")" >"$root/etc/environment"
check "the metadata server names the TPU" is_chip tpu-v6e 8 8
wait
machine skipped && printf 'GCE_METADATA_IP=127.0.0.1:1\nTPU_SKIP_MDS_QUERY=1\n' >"$root/etc/environment"
check "TPU_SKIP_MDS_QUERY leaves it alone" gives "len(d) == 1"

# A PJRT plugin ------------------------------------------------------------------------------------------------------

plugin() { # KIND DEVICES: in the last machine, which names it
    export FAKE_PJRT="kind=$1,units=$2"
    cp "$build/fake/libpjrt.so" "$root/libtpu.so" && echo TPU_LIBRARY_PATH=/libtpu.so >>"$root/etc/environment"
}
machine pjrt-v6e && plugin "TPU v6 lite" 4
check "a PJRT plugin names the TPU" is_chip tpu-v6e 4 4
check "by its device kind" gives "'PJRT calls its 4 devices TPU v6 lite' in c['evidence']"
machine pjrt-7x && plugin "TPU7x" 8
check "TPU7x by its kind: two devices a chip" is_chip tpu-7x 4 8
machine pjrt-and-pci && pci 4 1ae0 006f && plugin "TPU v6 lite" 4
check "beside PCI ids it is one chip" is_chip tpu-v6e 4 4
check "with both as evidence" gives "'1ae0:006f' in c['evidence'] and 'PJRT' in c['evidence']"
machine pjrt-contradiction && pci 4 1ae0 0063 && plugin "TPU v6 lite" 4
check "a kind that does not fit is said" gives "c['chip'] == 'tpu-v5e' and 'does not fit' in c['evidence']"
machine pjrt-unknown && plugin "TPU v99" 2
check "an unknown kind is an unknown chip" gives "c['chip'] is None and c['name'] == 'TPU v99' and peak['bf16'] is None"
machine pjrt-cpu && plugin "cpu" 1
check "a plugin for the CPU is no accelerator" gives "len(d) == 1"
machine pjrt-missing && echo TPU_LIBRARY_PATH=/none.so >"$root/etc/environment"
check "a plugin that is not there" gives "len(d) == 1"
check "asking a plugin that is not there" exits 1 "$zellige" bench kinds "$root/none.so"
check "asking what is no plugin" says 'GetPjrtApi' "$zellige" bench kinds "$build/libzellige.so"

# Specs -------------------------------------------------------------------------------------------------------------

machine v6e-override && pci 1 1ae0 006f
check "--peak replaces the table's figure" says '"f32": 459' "$zellige" bench devices --json --sysroot "$root" --peak f32=459
check "--peak of an unknown dtype" exits 2 "$zellige" bench devices --peak f99=1
check "--peak without a number" exits 2 "$zellige" bench devices --peak bf16=fast
sed 's/"bf16": 918/"bf16": 1000/' cli/bench/hw_specs.json >"$tmp/specs.json"
check "--specs replaces the table" says '"bf16": 1000' "$zellige" bench devices --json --sysroot "$root" --specs "$tmp/specs.json"
check "a table that is not there" exits 1 "$zellige" bench devices --specs "$tmp/none.json"
echo '{"chips": [' >"$tmp/broken.json"
check "a broken table is named with its line" says 'broken.json:[12]:[0-9]+: ' "$zellige" bench devices --specs "$tmp/broken.json"
every_figure_has_a_source() {
    python3 - <<'END'
import json, sys
specs = json.load(open("cli/bench/hw_specs.json"))
bad = [c["id"] for c in specs["chips"] + specs["cpus"] if not c["source"] or any(s not in specs["sources"] for s in c["source"])]
sys.exit("without a source: " + ", ".join(bad) if bad or len(specs["chips"]) < 61 else 0)
END
}
check "every chip of the table has a source" every_figure_has_a_source
finish

#!/usr/bin/env bash
# rehearse.sh BUILD - what scripts/ do in the cloud, done on a private Slurm of two nodes (slurm.sh) by SkyPilot itself: the YAML
# is parsed, a cluster launched, Zellige built and measured there, edits synced, runs pulled home. `make test-cloud`; needs
# root, PyPI once, and some minutes. ZL_SKY_VENV has skypilot and uv already; ZL_SKY_CATALOG is a copy of SkyPilot's catalog,
# with which dry runs on GCP are tried too.
# shellcheck source=../scripts/lib.sh
. "$(dirname "$0")/../scripts/lib.sh"

zellige=$build/zellige
export ZELLIGE=$zellige
own_venv=$build/venv-sky
venv=${ZL_SKY_VENV:-$own_venv}
folder=$tmp/cloud
if [ "$(id -u)" != 0 ]; then
    skip "the rehearsal" "it starts a Slurm, which needs root"
    finish
fi
if ! [ -x "$venv/bin/sky" ]; then
    python3 -m venv "$venv" && "$venv/bin/pip" install -q --disable-pip-version-check 'skypilot[gcp]==0.14.1' uv ||
        { skip "the rehearsal" "no SkyPilot from PyPI" && rm -rf "$own_venv" && finish; }
fi

# The YAML ----------------------------------------------------------------------------------------------------------

parses() { "$venv/bin/python" -c 'import sys, sky; sky.Task.from_yaml(sys.argv[1])' "$1"; }
export SKYPILOT_DISABLE_USAGE_COLLECTION=1
mkdir -p "$folder/sky"
chmod 755 "$tmp" # the user of the nodes goes through it
real_home=$HOME
export HOME=$folder/sky
for file in test/cloud/*.yaml; do
    check "SkyPilot parses $(basename "$file")" parses "$file"
done
sed 's/^resources:/resorces:/' test/cloud/tpu-v6e-8-gemm.yaml >"$tmp/typo.yaml"
check "and refuses a typo" says "resources" parses "$tmp/typo.yaml"

# The cluster -------------------------------------------------------------------------------------------------------

clean_up() {
    PATH=$venv/bin:$PATH sky api stop >/dev/null 2>&1
    test/cloud/slurm.sh down "$folder" "$venv"
    rm -rf "$tmp"
}
trap clean_up EXIT
export PATH=$venv/bin:$PATH ZL_SKY_INFRA=slurm/zelligelocal ZL_SKY_SUITE=test/cloud/tiny.json
export ZL_SKY_OPTIONS='-DZL_LEVELS=scalar' ZL_SKY_WAIT=3000
tree=$tmp/tree # what is synced: this one, without what git ignores
mkdir "$tree" && git ls-files -co --exclude-standard -z | xargs -0 cp --parents -t "$tree"
in_tree() { (cd "$tree" && "$@"); }

if ! test/cloud/slurm.sh up "$folder" "$venv" >"$tmp/slurm.log" 2>&1; then
    check "a Slurm of two nodes" sh -c "cat '$tmp/slurm.log'; false"
    finish
fi
is_healthy() { "$venv/bin/python" -c 'import urllib.request as u; u.urlopen("http://127.0.0.1:46580/api/health", timeout=5)' 2>/dev/null; }
start_server() { # on a busy machine it comes up after `sky api start` has given up
    timeout 300 sky api start && return
    for _ in $(seq 60); do is_healthy && return || sleep 5; done
    return 1
}
check "SkyPilot's server starts" start_server
check "it can use the Slurm" says 'zelligelocal.*enabled' timeout 200 sky check slurm
check "syncing to no cluster is refused" says 'a file .cluster_name' in_tree scripts/sync_code.sh
check "v7 is refused" says 'does not know TPU v7' in_tree scripts/launch_tpu.sh tpu-v7-8 gemm
check "launch: Zellige is built there, and measures" says 'bandwidth/f32/1048576 .*GB/s' in_tree scripts/launch_tpu.sh tpu-v6e-8 rehearsal
check "the cluster's name is kept" grep -qx zl-v6e-8-rehearsal "$tree/.cluster_name"
cluster=zl-v6e-8-rehearsal
check "a second launch runs on it" says 'is up: running there' in_tree scripts/launch_tpu.sh tpu-v6e-8 rehearsal
echo "an edit" >"$tree/edited.txt"
check "sync" timeout 300 "$tree/scripts/sync_code.sh"
there() { timeout 300 sky exec "$cluster" "source .venv/bin/activate && $1"; }
check "the edit is there" says 'an edit' there 'cat edited.txt'
check "a Python script runs there" says '2.0, 2.0, 2.0. tiny' there \
    "python -c 'import zellige.core as mx, zellige.bench; print((mx.ones(3) + 1).tolist(), zellige.bench.history()[0].suite)'"
check "the device pjrt is there" says '^pjrt *0' there 'zellige devices'
check "what fails there fails here" exits 100 there 'exit 3'

# Home again --------------------------------------------------------------------------------------------------------

# ssh looks for ~ in the list of users, not in HOME, which is another one here.
export RSYNC_RSH="ssh -q -F $HOME/.sky/generated/ssh/$cluster -i $HOME/.sky/generated/ssh-keys/$cluster.key"
check "pull brings both runs" says '^2 new runs' in_tree "$zellige" bench pull
check "and nothing twice" says '^0 new runs' in_tree "$zellige" bench pull
check "the history has them" sh -c "[ \$(grep -c '\"suite\": \"tiny\"' '$tree/runs/index.jsonl') = 2 ]"
pulled() { "$zellige" bench report --format markdown "$(find "$tree/runs" -mindepth 1 -type d | head -n 1)"; }
check "a pulled run has its report" says '^\| gemm/bf16/128 ' pulled
on_pjrt() { ZELLIGE=$zellige in_tree scripts/test_tpu.sh device/test_pjrt: op/test_take: >"$tmp/on_pjrt" 2>&1; }
check "test_tpu.sh: tests and a suite on the device pjrt" on_pjrt
check "its tests passed" grep -E '[1-9][0-9]* passed, 0 failed' "$tmp/on_pjrt"
check "its run is here" grep '^1 new run' "$tmp/on_pjrt"
check "the cluster goes down" timeout 300 sky down -y "$cluster"
on_two() { timeout 600 sky launch -y -c zl-two --infra "$ZL_SKY_INFRA" --cpus 1+ --num-nodes 2 -- "echo rank \$SKYPILOT_NODE_RANK of \$SKYPILOT_NUM_NODES"; }
check "two nodes at once" says 'rank 1 of 2' on_two
timeout 300 sky down -y zl-two >/dev/null 2>&1

if [ -n "${ZL_SKY_CATALOG:-}" ]; then
    mkdir -p "$HOME/.sky/catalogs" && cp -r "$ZL_SKY_CATALOG" "$HOME/.sky/catalogs/v8"
    python -c "
from sky import global_user_state as state
from sky.clouds.cloud import CloudCapability
state.set_enabled_clouds(['GCP'], CloudCapability.COMPUTE, 'default')"
    plans() { ZL_SKY_INFRA=gcp timeout 300 "$tree/scripts/launch_tpu.sh" --dryrun "$1" gemm; }
    check "SkyPilot plans a v6e-8 on GCP" says 'tpu-v6e-8' plans tpu-v6e-8
    check "and a v5litepod-4" says 'Dryrun finished' plans tpu-v5litepod-4
else
    skip "dry runs on GCP" "no ZL_SKY_CATALOG"
fi
HOME=$real_home
finish

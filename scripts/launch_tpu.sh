#!/usr/bin/env bash
# launch_tpu.sh [--render | --dryrun] ACCELERATOR EXPERIMENT - asks SkyPilot for a TPU, builds Zellige there and measures.
#
#   scripts/launch_tpu.sh tpu-v6e-8 gemm
#
# EXPERIMENT is a suite of `zellige bench run` (gemm, full, ...) or any other name, which measures tpu_simple. --render only
# prints the YAML; --dryrun lets SkyPilot plan without launching. The name of the cluster is kept in .cluster_name, for
# scripts/sync_code.sh and `sky exec`. ZL_SKY_INFRA chooses another infrastructure than gcp, ZL_SKY_OPTIONS has
# options for CMake, ZL_SKY_SUITE another suite (a name, or a file of this tree).
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
    sed -n '2,10s/^# \{0,1\}//p' scripts/launch_tpu.sh >&2
    exit 2
}
mode=launch
case ${1:-} in
--render | --dryrun) mode=${1#--} && shift ;;
esac
[ $# = 2 ] || usage
accelerator=$1 experiment=$2
infra=${ZL_SKY_INFRA:-gcp}

refuse() {
    printf 'launch_tpu.sh: %s\n' "$*" >&2
    exit 1
}
case $experiment in
*[!a-z0-9_-]* | '') refuse "experiment '$experiment': lower-case letters, digits, - and _ only" ;;
esac

# The names that SkyPilot's catalog has: v2 to v4 and v5p count cores, v5litepod and v6e chips.
case $accelerator in
tpu-v7* | tpu7x* | tpu-7x*)
    refuse "$accelerator: SkyPilot 0.14 does not know TPU v7 (Ironwood), neither on GCP nor on GKE; use Google's xpk or GKE directly" ;;
tpu-v[234]-[0-9]* | tpu-v5p-[0-9]* | tpu-v5litepod-[0-9]* | tpu-v6e-[0-9]*) ;;
tpu-v5e-*) refuse "$accelerator: SkyPilot calls it tpu-v5litepod-${accelerator##*-}" ;;
*) refuse "'$accelerator' is no TPU that SkyPilot knows: tpu-v4-8, tpu-v5litepod-8, tpu-v5p-8, tpu-v6e-8, ..." ;;
esac
chips=${accelerator##*-}
case $chips in *[!0-9]*) refuse "'$accelerator' does not end with a number of chips or cores" ;; esac
case $accelerator in
tpu-v6e-* | tpu-v5litepod-*)
    case $chips in 1 | 4 | 8 | 16 | 32 | 64 | 128 | 256) ;; *) refuse "$accelerator: there are 1, 4, 8, 16, 32, 64, 128 and 256 chips" ;; esac ;;
esac

suite=${ZL_SKY_SUITE:-}
case $suite$experiment in simple | gemm | full) suite=tpu_$experiment ;; tpu_simple | tpu_gemm | tpu_full) suite=$experiment ;; esac
suite=${suite:-tpu_simple}

render() {
    local resources packages='jax[tpu]'
    if [ "$infra" = gcp ]; then
        resources=$(printf '  accelerators: %s\n  use_spot: true' "$accelerator")
    else # a rehearsal without TPUs
        resources=$(printf '  cpus: 1+')
        packages='pip'
    fi
    awk -v experiment="$experiment" -v infra="$infra" -v resources="$resources" -v suite="$suite" -v packages="'$packages'" \
        -v accelerator="$accelerator" -v options="${ZL_SKY_OPTIONS:-}" 'NR > 1 {
            gsub(/@EXPERIMENT@/, experiment); gsub(/@INFRA@/, infra); gsub(/@RESOURCES@/, resources); gsub(/@SUITE@/, suite)
            gsub(/@PACKAGES@/, packages); gsub(/@ACCELERATOR@/, accelerator); gsub(/@OPTIONS@/, options); print }' scripts/tpu_resource.sky.yaml
}
if [ $mode = render ]; then
    render
    exit
fi

command -v sky >/dev/null || refuse "no sky: pip install 'skypilot[gcp]==0.14.1'"
cluster=zl-${accelerator#tpu-}-$experiment
yaml=$(mktemp --suffix=.sky.yaml)
trap 'rm -f "$yaml"' EXIT
render >"$yaml"
if [ $mode = dryrun ]; then
    sky launch --dryrun -y -c "$cluster" "$yaml"
    exit
fi
echo "$cluster" >.cluster_name # before it is launched: what fails later may be up, and cost money
if sky status --refresh "$cluster" 2>/dev/null | grep -q "^$cluster .*UP"; then
    echo "launch_tpu.sh: $cluster is up: running there"
    sky exec "$cluster" "$yaml"
else
    timeout "${ZL_SKY_WAIT:-3600}" sky launch -y -c "$cluster" "$yaml"
fi

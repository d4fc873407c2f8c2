#!/usr/bin/env bash
# launch_tpu.sh [--render | --dryrun] ACCELERATOR EXPERIMENT - asks SkyPilot for a TPU, builds Zellige there and measures.
#
#   scripts/launch_tpu.sh tpu-v6e-8 gemm
#
# EXPERIMENT is a suite of `zellige bench run` (gemm, full, ...) or any other name, which measures tpu_simple. --render only
# prints the YAML; --dryrun lets SkyPilot plan without launching. The name of the cluster is kept in .cluster_name, for
# scripts/sync_code.sh and `sky exec`. ZL_SKY_INFRA chooses another infrastructure than gcp, ZL_SKY_OPTIONS has
# options for CMake, ZL_SKY_SUITE another suite (a name, or a file of this tree), ZL_SKY_WAIT the seconds a launch may take. On GCP,
# ZL_SKY_SPOT=no asks for a machine that is not taken away, and ZL_SKY_IDLE has the minutes without a job after which the cluster is
# removed (30; 0: never).
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=lib.sh
. scripts/lib.sh

usage() {
    sed -n '2,11s/^# \{0,1\}//p' scripts/launch_tpu.sh >&2
    exit 2
}
mode=launch
case ${1:-} in
--render | --dryrun) mode=${1#--} && shift ;;
esac
[ $# = 2 ] || usage
accelerator=$1 experiment=$2
infra=${ZL_SKY_INFRA:-gcp} options=${ZL_SKY_OPTIONS:-} suite=${ZL_SKY_SUITE:-} wait=${ZL_SKY_WAIT:-3600}
spot=${ZL_SKY_SPOT:-yes} idle=${ZL_SKY_IDLE:-30}

# These reach YAML and the shell of another machine: letters that mean something there are in none of them.
expect experiment "$experiment" '[a-z0-9][a-z0-9_-]{0,40}' "lower-case letters, digits, - and _ only, 41 at most"
expect ZL_SKY_INFRA "$infra" '[a-z0-9]+(/[A-Za-z0-9_.-]+){0,2}' "a cloud, with a region and a zone: gcp/us-east5/us-east5-a"
expect ZL_SKY_OPTIONS "$options" '(-D[A-Za-z0-9_]+=[A-Za-z0-9_.,:+/=-]*( +|$))*' "options for CMake, -DNAME=VALUE"
expect ZL_SKY_SUITE "$suite" '([A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*)?' "a suite, or a file of this tree"
expect ZL_SKY_WAIT "$wait" '[0-9]{1,6}' "seconds"
expect ZL_SKY_SPOT "$spot" 'yes|no' "yes or no"
expect ZL_SKY_IDLE "$idle" '[0-9]{1,5}' "minutes"

# The names that SkyPilot's catalog has: v2 to v4 and v5p count cores, v5litepod and v6e chips.
case $accelerator in
tpu-v7* | tpu7x* | tpu-7x*)
    refuse "$accelerator: SkyPilot 0.14 does not know TPU v7 (Ironwood), neither on GCP nor on GKE; use Google's xpk or GKE directly" ;;
tpu-v5e-*) refuse "$accelerator: SkyPilot calls it tpu-v5litepod-${accelerator##*-}" ;;
esac
expect accelerator "$accelerator" 'tpu-(v2|v3|v4|v5p|v5litepod|v6e)-[1-9][0-9]{0,4}' \
    "it is no TPU that SkyPilot knows: tpu-v4-8, tpu-v5litepod-8, tpu-v5p-8, tpu-v6e-8, ..."
count=${accelerator##*-}
case $accelerator in
tpu-v6e-* | tpu-v5litepod-*)
    case $count in 1 | 4 | 8 | 16 | 32 | 64 | 128 | 256) ;; *) refuse "$accelerator: there are 1, 4, 8, 16, 32, 64, 128 and 256 chips" ;; esac ;;
tpu-v4-* | tpu-v5p-*)
    case $count in 8 | 16 | 32 | 64) ;; *) [ $((count % 128)) = 0 ] || refuse "$accelerator: there are 8, 16, 32 and 64 cores, and multiples of 128" ;; esac ;;
*)
    case $count in 8 | 32 | 128 | 256 | 512 | 1024 | 2048) ;; *) refuse "$accelerator: there are 8, 32, 128, 256 and 512 cores, and of v3 1024 and 2048" ;; esac ;;
esac
[ "$count" -le 8 ] || refuse "$accelerator: its chips belong to several hosts, and the device pjrt works on those of one: ${accelerator%-*}-8 is the largest"

case $suite$experiment in simple | gemm | full) suite=tpu_$experiment ;; tpu_simple | tpu_gemm | tpu_full) suite=$experiment ;; esac
suite=${suite:-tpu_simple}

# Fills in the template. A value stands between double quotes in YAML, and scripts read it from the environment: no value
# is ever a part of a command.
render() {
    local resources packages=libtpu line
    if [ "${infra%%/*}" = gcp ]; then
        resources="  accelerators: \"$accelerator\""
        [ "$spot" = no ] || resources+=$'\n'"  use_spot: true"
    else # a rehearsal without TPUs
        resources='  cpus: 1+'
        packages='xla-cpu-pjrt==0.0.1'
    fi
    tail -n +2 scripts/tpu_resource.sky.yaml | while IFS= read -r line; do
        line=${line//@EXPERIMENT@/"$experiment"}
        line=${line//@INFRA@/"$infra"}
        line=${line//@RESOURCES@/"$resources"}
        line=${line//@SUITE@/"$suite"}
        line=${line//@PACKAGES@/"$packages"}
        line=${line//@ACCELERATOR@/"$accelerator"}
        line=${line//@OPTIONS@/"$options"}
        printf '%s\n' "$line"
    done
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
    until_idle=()
    [ "${infra%%/*}" != gcp ] || [ "$idle" = 0 ] || until_idle=(-i "$idle" --down)
    timeout "$wait" sky launch -y "${until_idle[@]}" -c "$cluster" "$yaml" || {
        code=$?
        echo "launch_tpu.sh: this failed with code $code, and $cluster may cost money all the same. What SkyPilot knows of it:" >&2
        sky status --refresh "$cluster" >&2 || true
        echo "launch_tpu.sh: sky down $cluster removes it" >&2
        exit $code
    }
fi

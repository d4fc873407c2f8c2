#!/usr/bin/env bash
# launch_tpu.sh [--render | --dryrun] ACCELERATOR EXPERIMENT - asks SkyPilot for a TPU, builds Zellige there and measures.
#
#   scripts/launch_tpu.sh tpu-v6e-8 gemm
#
# EXPERIMENT is a suite of `zellige bench run` (gemm, full, ...) or any other name, which measures tpu_simple. --render only
# prints the YAML; --dryrun lets SkyPilot plan without launching. The name of the cluster is kept in .cluster_name. It is
# `zellige cloud launch --yes --bench EXPERIMENT --gpus ACCELERATOR` (doc/cloud.md). ZL_SKY_INFRA chooses another infrastructure
# than gcp, ZL_SKY_OPTIONS has options for CMake, ZL_SKY_SUITE another suite (a name, or a file of this tree), ZL_SKY_WAIT the
# seconds a launch may take, ZL_SKY_PRICE the most dollars per hour. On GCP, ZL_SKY_SPOT=no asks for a machine that is not taken
# away, and ZL_SKY_IDLE has the minutes without a job after which the cluster is removed (30; 0: never).
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=lib.sh
. scripts/lib.sh

usage() {
    sed -n '2,12s/^# \{0,1\}//p' scripts/launch_tpu.sh >&2
    exit 2
}
words=(--yes)
case ${1:-} in
--render | --dryrun) words=("$1") && shift ;;
esac
[ $# = 2 ] || usage
spot=${ZL_SKY_SPOT:-yes} idle=${ZL_SKY_IDLE:-30} wait=${ZL_SKY_WAIT:-3600} price=${ZL_SKY_PRICE:-}
expect ZL_SKY_WAIT "$wait" '[0-9]{1,6}' "seconds"
expect ZL_SKY_SPOT "$spot" 'yes|no' "yes or no"
expect ZL_SKY_IDLE "$idle" '[0-9]{1,5}' "minutes"
expect ZL_SKY_PRICE "$price" '([0-9]+(\.[0-9]+)?)?' "dollars per hour"
[ "$spot" = no ] || words+=(--spot)
[ -z "${ZL_SKY_SUITE:-}" ] || words+=("--suite=$ZL_SKY_SUITE")
[ -z "$price" ] || words+=("--max-price=$price")
exec "$zellige" cloud launch "${words[@]}" "--gpus=$1" "--bench=$2" "--infra=${ZL_SKY_INFRA:-gcp}" \
    "--build-options=${ZL_SKY_OPTIONS:-}" "--wait=$wait" "--idle=$idle"

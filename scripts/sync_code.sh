#!/usr/bin/env bash
# sync_code.sh - brings the working tree to the cluster that scripts/launch_tpu.sh made. Ignored files stay here.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=lib.sh
. scripts/lib.sh
kept_cluster
command -v sky >/dev/null || refuse "no sky: pip install 'skypilot[gcp]==0.14.1'"
sky status "$cluster" 2>/dev/null | grep -q "^$cluster .*UP" || refuse "$cluster is not up: sky status"
sky exec "$cluster" --workdir . -- true

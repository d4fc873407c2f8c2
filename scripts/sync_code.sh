#!/usr/bin/env bash
# sync_code.sh - brings the working tree to the cluster that scripts/launch_tpu.sh made. Ignored files stay here.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -s .cluster_name ] || { echo "sync_code.sh: no .cluster_name: scripts/launch_tpu.sh writes it" >&2 && exit 1; }
cluster=$(cat .cluster_name)
command -v sky >/dev/null || { echo "sync_code.sh: no sky: pip install 'skypilot[gcp]==0.14.1'" >&2 && exit 1; }
sky status "$cluster" 2>/dev/null | grep -q "^$cluster .*UP" || { echo "sync_code.sh: $cluster is not up: sky status" >&2 && exit 1; }
sky exec "$cluster" --workdir . -- true

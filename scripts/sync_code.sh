#!/usr/bin/env bash
# sync_code.sh - brings the working tree to the cluster that scripts/launch_tpu.sh made. Ignored files stay here.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=lib.sh
. scripts/lib.sh
exec "$zellige" cloud sync

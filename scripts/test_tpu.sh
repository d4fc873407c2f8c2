#!/usr/bin/env bash
# test_tpu.sh [WORD...] - on the cluster that scripts/launch_tpu.sh made: builds the tests of this tree, runs those of ops on the device pjrt
# (or those whose names have one of the words), then the suite tpu_simple (ZL_SKY_SUITE), and brings the run home. `make test-tpu`.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=lib.sh
. scripts/lib.sh
suite=${ZL_SKY_SUITE:-tpu_simple}
expect ZL_SKY_SUITE "$suite" '[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*' "a suite, or a file of this tree"
[ $# -gt 0 ] || set -- op/
for word in "$@"; do
    expect WORD "$word" '[A-Za-z0-9_/:]+' "a word of names of tests"
done
# Words and the suite have letters that no shell reads.
"$zellige" cloud exec -- bash -c ". .venv/bin/activate &&
    make build OPTIONS=-DZL_DEV=ON >/dev/null &&
    ZL_DEVICE=pjrt build/test --brief $* &&
    ZL_DEVICE=pjrt zellige bench run $suite --notes 'test-tpu on $(cat .cluster_name)'"
"$zellige" cloud pull

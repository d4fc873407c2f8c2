#!/usr/bin/env bash
# cloud_render.sh BUILD - scripts/launch_tpu.sh renders what test/cloud/ has and refuses what SkyPilot does not know; `zellige
# bench pull` brings runs home. No network, no SkyPilot: test/cloud/sky says what it was asked.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

zellige=$build/zellige
export ZELLIGE=$zellige
launch=scripts/launch_tpu.sh
renders() { # FILE ACCELERATOR EXPERIMENT
    $launch --render "$2" "$3" | diff "test/cloud/$1" -
}
check "v6e-8 gemm" renders tpu-v6e-8-gemm.yaml tpu-v6e-8 gemm
check "v5litepod-4 full" renders tpu-v5litepod-4-full.yaml tpu-v5litepod-4 full
check "v5p-8 with a name of its own" renders tpu-v5p-8-mine.yaml tpu-v5p-8 mine
on_slurm() { ZL_SKY_INFRA=slurm/zelligelocal $launch --render tpu-v6e-8 gemm | diff test/cloud/slurm-gemm.yaml -; }
check "another infrastructure" on_slurm
check "v7 is refused with the reason" says 'does not know TPU v7' $launch --render tpu-v7-8 gemm
check "tpu7x too" exits 1 $launch --render tpu7x-8 gemm
check "v5e has another name there" says 'tpu-v5litepod-8' $launch --render tpu-v5e-8 gemm
check "three chips of v6e" says '1, 4, 8, 16' $launch --render tpu-v6e-3 gemm
check "nine cores of v5p" says '8, 16, 32 and 64 cores, and multiples of 128' $launch --render tpu-v5p-9 gemm
check "100 cores of v4" says 'multiples of 128' $launch --render tpu-v4-100 gemm
check "a count of v3 that there is not" says '8, 32, 64, 128' $launch --render tpu-v3-16 gemm
for text in tpu-v6e-16 tpu-v5p-256 tpu-v4-16 tpu-v2-32; do
    check "$text has several hosts" says "several hosts.*${text%-*}-8 is the largest" $launch --render $text gemm
done
on_demand() { [ "$(ZL_SKY_SPOT=no $launch --render tpu-v6e-8 gemm)" = "$(grep -v use_spot test/cloud/tpu-v6e-8-gemm.yaml)" ]; }
check "a machine that is not taken away" on_demand
check "a GPU is no TPU" exits 1 $launch --render H200:1 gemm
check "an experiment that would break the YAML" exits 1 $launch --render tpu-v6e-8 'a: b'
check "nothing given" exits 2 $launch

# Texts that YAML or a shell would take for something else.
refused() { # ARGUMENT...: nothing on standard output, and exit code 1
    local out
    out=$("$@" 2>/dev/null)
    [ $? = 1 ] && [ -z "$out" ]
}
for text in 'tpu-v4-8"' "tpu-v4-8'" 'tpu-v4-$(id)-8' 'tpu-v4-`id`-8' $'tpu-v4-8\nrun: id\n-8' 'tpu-v4-8 #-8' 'tpu-v4-8;id;-8' 'tpu-v4-x" # -8'; do
    check "accelerator ${text@Q}" refused $launch --render "$text" gemm
done
for text in 'a"b' '$(id)' $'a\nb' '-x' ''; do check "experiment ${text@Q}" refused $launch --render tpu-v4-8 "$text"; done
for text in 'gcp"' $'gcp\nsetup: id' 'gcp/$(id)' 'gcp/a/b/c' '-gcp'; do check "infrastructure ${text@Q}" refused env ZL_SKY_INFRA="$text" $launch --render tpu-v4-8 gemm; done
for text in '$(id)' '-DX=$(id)' '-DX="y"' 'x' $'-DX=1\n-DY=2' '-DX=1;id'; do check "options ${text@Q}" refused env ZL_SKY_OPTIONS="$text" $launch --render tpu-v4-8 gemm; done
for text in '$(id)' '--out=x' '../x.json' '/etc/passwd' 'a b' $'a\nb'; do check "suite ${text@Q}" refused env ZL_SKY_SUITE="$text" $launch --render tpu-v4-8 gemm; done
for text in maybe 'no;id'; do check "spot ${text@Q}" refused env ZL_SKY_SPOT="$text" $launch --render tpu-v4-8 gemm; done
for text in 'x' '-1' '1;id'; do check "idle minutes ${text@Q}" refused env ZL_SKY_IDLE="$text" $launch --render tpu-v4-8 gemm; done
check "seconds to wait" refused env ZL_SKY_WAIT='1;id' $launch --render tpu-v4-8 gemm
options='-DZL_LEVELS=scalar -DCMAKE_C_FLAGS=-O1'
check "two options" says "ZL_OPTIONS: \"$options\"\$" env ZL_SKY_OPTIONS="$options" $launch --render tpu-v4-8 gemm
check "a region and a zone" says 'accelerators: "tpu-v4-8"' env ZL_SKY_INFRA=gcp/us-central2/us-central2-b $launch --render tpu-v4-8 gemm

# test/cloud/sky writes down what it is asked.
export SKY_FAKE=$tmp/fake
mkdir -p "$tmp/tree" "$SKY_FAKE" && cp -r scripts "$tmp/tree/"
with_sky() { PATH=$PWD/test/cloud:$PATH "$@"; }
asked() { tail -n 1 "$SKY_FAKE/asked" | grep -qE "$1" || { cat "$SKY_FAKE/asked"; return 1; }; }
touch "$SKY_FAKE/fails"
check "a launch that fails" exits 1 with_sky "$tmp/tree/$launch" tpu-v4-8 gemm
check "says what may cost money" says 'sky down zl-v4-8-gemm. removes it' with_sky "$tmp/tree/$launch" tpu-v4-8 gemm
check "may leave a cluster, whose name is kept" grep -qx zl-v4-8-gemm "$tmp/tree/.cluster_name"
rm "$SKY_FAKE/fails"
check "a launch" with_sky "$tmp/tree/$launch" tpu-v6e-8 gemm
check "asks SkyPilot for a cluster" asked '^launch -y -i 30 --down -c zl-v6e-8-gemm .*yaml$'
check "a launch that stays" with_sky env ZL_SKY_IDLE=0 "$tmp/tree/$launch" tpu-v6e-8 stays
check "asks for no end" asked '^launch -y -c zl-v6e-8-stays .*yaml$'
rm "$SKY_FAKE/clusters.json"
check "syncing to what is not up fails" exits 1 with_sky "$tmp/tree/scripts/sync_code.sh"
check "another launch" with_sky "$tmp/tree/$launch" tpu-v6e-8 gemm
check "keeps its name" grep -qx zl-v6e-8-gemm "$tmp/tree/.cluster_name"
check "a second launch runs on the cluster that is up" with_sky "$tmp/tree/$launch" tpu-v6e-8 gemm
check "by sky exec" asked '^exec zl-v6e-8-gemm '
check "syncing" with_sky "$tmp/tree/scripts/sync_code.sh"
check "is an exec of nothing" asked '^exec zl-v6e-8-gemm --workdir . -- true$'
mkdir -p "$tmp/forged" && cp -r scripts "$tmp/forged/"
for text in '-eid' '$(id)' 'zl-x;id' $'zl-x\nid' 'x'; do
    printf '%s\n' "$text" >"$tmp/forged/.cluster_name"
    check "a forged .cluster_name ${text@Q}" refused with_sky "$tmp/forged/scripts/sync_code.sh"
done

# Pulling.
if "$zellige" bench devices >/dev/null 2>&1 && command -v rsync >/dev/null; then
    echo '{"items": [{"work": "gemm", "sizes": [16]}]}' >"$tmp/tiny.json"
    for _ in 1 2; do "$zellige" bench run "$tmp/tiny.json" --seconds 0.001 --samples 2 --out "$tmp/there" >/dev/null; done
    check "pull brings runs" says '^2 new runs' "$zellige" bench pull "$tmp/there" --out "$tmp/home"
    check "once" says '^0 new runs' "$zellige" bench pull "$tmp/there" --out "$tmp/home"
    check "the index has both" sh -c "[ \$(wc -l <'$tmp/home/index.jsonl') = 2 ]"
    in_folder() { (cd "$1" && "${@:2}"); }
    check "pull from nowhere" exits 2 in_folder "$tmp/home" "$zellige" bench pull
    mkdir -p "$tmp/bin/away" && printf '#!/bin/sh\necho "$@" >%s/rsynced\n' "$tmp" >"$tmp/bin/away/rsync" && chmod +x "$tmp/bin/away/rsync"
    check "pull from the cluster" env PATH="$tmp/bin/away:$PATH" sh -c "cd '$tmp/tree' && '$zellige' bench pull"
    check "is a copy of its runs" grep -q 'zl-v6e-8-gemm:sky_workdir/runs/ runs/$' "$tmp/rsynced"
    check "pull of nothing" exits 1 "$zellige" bench pull "$tmp/none" --out "$tmp/home"
    for text in '-eid' 'x;id' '$(id)'; do
        printf '%s\n' "$text" >"$tmp/forged/.cluster_name"
        check "pull from a forged .cluster_name ${text@Q}" exits 2 in_folder "$tmp/forged" "$zellige" bench pull
    done
    run=$(find "$tmp/there" -mindepth 1 -maxdepth 1 -type d | head -n 1)
    ln -s /etc/passwd "$run/link"
    "$zellige" bench pull "$tmp/there" --out "$tmp/linked" >/dev/null
    check "pull brings no links" sh -c "[ -z \"\$(find '$tmp/linked' -type l)\" ]"
else
    skip "pull" "no rsync"
fi
finish

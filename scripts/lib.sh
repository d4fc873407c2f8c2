# lib.sh - what the scripts for TPUs share: texts of a user are checked before they reach YAML or a shell.
# shellcheck shell=bash

LC_ALL=C # ranges of letters are those of ASCII
script=$(basename "$0")

refuse() {
    printf '%s: %s\n' "$script" "$*" | tr -c '[:print:]\n' '?' >&2
    exit 1
}

# expect NAME VALUE PATTERN WHAT: refuses a value that the extended pattern does not match as a whole.
expect() {
    [[ $2 =~ ^($3)$ ]] || refuse "$1 '$2': $4"
}

# The name that launch_tpu.sh kept.
kept_cluster() {
    [ -s .cluster_name ] || refuse "no .cluster_name: scripts/launch_tpu.sh writes it"
    cluster=$(<.cluster_name)
    expect .cluster_name "$cluster" 'zl-[a-z0-9_-]+' "it is not a name that scripts/launch_tpu.sh gives"
}

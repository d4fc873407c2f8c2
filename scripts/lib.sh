# lib.sh - what the scripts for TPUs share: the program that does the work, and how a wrong text is refused.
# shellcheck shell=bash

LC_ALL=C # ranges of letters are those of ASCII
script=$(basename "$0")
zellige=${ZELLIGE:-build/zellige}

refuse() {
    printf '%s: %s\n' "$script" "$*" | tr -c '[:print:]\n' '?' >&2
    exit 1
}

# expect NAME VALUE PATTERN WHAT: refuses a value that the extended pattern does not match as a whole.
expect() {
    [[ $2 =~ ^($3)$ ]] || refuse "$1 '$2': $4"
}

[ -x "$zellige" ] || zellige=$(command -v zellige) || refuse "no program zellige: make build"

#!/usr/bin/env bash
# prefixes.sh [ROOT [BUILD]] - fails when the name of a function that other files can call does not say where it is from. It begins with
# zl_, the name of a folder on its file's path, or a prefix that prefixes.txt gives to such a folder. Within a library, a prefix that is
# given belongs to one folder and is the name of no other. Writes the file and the function, or the line of the table, for each.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${2:-${1:-$here/..}/build}" && pwd)
cd "${1:-$here/..}"

# Lines "FILE FUNCTION" of the objects whose sources are there.
functions() {
    find "$build" -name '*.c.o' | grep -E '\.dir/(src|cli|model|python)/' | while IFS= read -r object; do
        source=${object##*.dir/}
        [ ! -f "${source%.o}" ] || printf '%s\n' "$object"
    done | xargs -r -d '\n' "${NM:-nm}" -A -P --defined-only |
        awk '$3 ~ /^[TW]$/ { sub(/^.*\.dir\//, "", $1); sub(/\.o:$/, "", $1); print $1, $2 }' | sort -u
}

functions | awk -v rules=tool/prefixes.txt '
    function bad(why) { print why; failed = 1 }
    function read_rules(    row, count, word, i, folder, top) {
        while ((getline row < rules) > 0) {
            sub(/#.*/, "", row)
            if (row !~ /^[a-z]/) continue
            count = split(row, word, /[: ]+/)
            if (word[1] == "shared") { shared[word[2]]; continue }
            top = word[1]
            sub(/\/.*/, "", top)
            for (i = 2; i <= count; i++) {
                if (word[i] == "") continue
                if ((top, word[i]) in home) bad(rules ": " word[1] " and " home[top, word[i]] " both have " word[i] "_")
                home[top, word[i]] = word[1]
                given[word[1], word[i]] = 1
            }
        }
    }
    # Whether the name, or what stands before an underscore of it, is the prefix.
    function begins(name, prefix) { return name == prefix || index(name, prefix "_") == 1 }
    BEGIN { read_rules() }
    {
        if (begins($2, "zl") || $2 == "main" || $2 ~ /^PyInit_/) next
        total++
        count = split($1, part, "/")
        folder = ""
        fits = 0
        for (i = 1; i < count; i++) {
            folder = folder (i > 1 ? "/" : "") part[i]
            named[part[1], part[i]] = folder
            if (begins($2, part[i])) { fits = 1; continue }
            prefix = $2
            while (1) { # a prefix may have underscores itself
                if ((folder, prefix) in given) { fits = used[folder, prefix] = 1; break }
                if (!sub(/_[^_]*$/, "", prefix)) break
            }
        }
        if (!fits) bad($1 ": " $2 " has none of the prefixes of its folder (" rules ")")
    }
    END {
        if (!total) { print "no objects: build first"; exit 1 }
        for (key in given) {
            split(key, part, SUBSEP)
            top = part[1]
            sub(/\/.*/, "", top)
            if ((top, part[2]) in named && !(part[2] in shared))
                bad(rules ": " part[1] " has " part[2] "_, the name of " named[top, part[2]])
            if (!(key in used) && part[1] !~ /^python/) bad(rules ": no function of " part[1] " begins with " part[2] "_")
        }
        exit failed
    }' | sort

#!/usr/bin/env bash
# layers.sh [ROOT [BUILD]] - fails when a file includes a folder that layers.txt does not allow, and, where BUILD holds the objects
# of the tree, when one calls a function or reads a variable of such a folder. Writes FILE:LINE, or FILE, for each.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=${2:+$(cd "$2" && pwd)}
cd "${1:-$here/..}"

rules=tool/layers.txt
public=$(sed -n 's/^public: *//p' "$rules")
folders=()
for folder in src $public; do
    [ ! -d "$folder" ] || folders+=("$folder")
done

# What both checks read of the rules: layer[folder], allowed[folder, folder or header], may_call[file, function].
read_rules='
    function read_rules(rules,    row, count, word, i, outside) {
        while ((getline row < rules) > 0) {
            sub(/#.*/, "", row)
            outside = ""
            if (sub(/^outside /, "", row)) { outside = row; sub(/:.*/, "", outside) }
            if (row !~ /^[a-z0-9_\/.]+:/ || row ~ /^public:/) continue
            count = split(row, word, /[: ]+/)
            for (i = 2; i <= count; i++) {
                if (word[i] == "") continue
                if (outside != "") may_see[outside, word[i]] = 1
                else if (word[1] ~ /\//) may_call[word[1], word[i]] = 1
                else allowed[word[1], word[i]] = 1
            }
            if (word[1] !~ /\// && outside == "") layer[word[1]] = 1
        }
    }'

# Lines "FILE:LINE:#include "PATH"" of all sources, judged one by one.
includes() {
    grep -rnE --include='*.[ch]' --include='*.def' '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' "${folders[@]}" ||
        [ $? = 1 ]
}
check_includes() {
    includes | awk -F: -v rules="$rules" "$read_rules"'
    BEGIN { read_rules(rules) }
    function bad(why) { print $1 ":" $2 ": " why; failed = 1 }
    {
        match($0, /"[^"]*"/)
        path = substr($0, RSTART + 1, RLENGTH - 2)
        split($1, part, "/")
        steps = split(path, target, "/")
        if (path ~ /(^|\/)\.\.(\/|$)/) { bad("\"" path "\" climbs out of its folder: include it from src/"); next }
        if (part[1] != "src") {
            own = $1
            sub(/[^\/]*$/, path, own) # a header beside it
            top = part[1] "/" path # or of its outermost folder
            split(path, target, "/")
            if ((part[1], path) in may_see) next
            if (steps == 2 && (part[1], target[1]) in may_see && system("test -e \"model/" path "\"") == 0) next
            if (steps > 1 || (path !~ /^zellige[a-z_]*\.h$/ && system("test -e \"" own "\" || test -e \"" top "\"") != 0))
                bad(part[1] "/ may include public headers only, not \"" path "\"")
            next
        }
        if (!(part[2] in layer)) { bad("src/" part[2] " is not in " rules); next }
        if (steps == 1 || !(target[1] in layer) || target[1] == part[2]) next
        if (!((part[2], target[1]) in allowed) && !((part[2], path) in allowed))
            bad("src/" part[2] " may not include \"" path "\"")
    }
    END { exit failed }'
}

# The objects of sources that are there: a build folder keeps those of sources that were removed.
objects() {
    local object source
    while IFS= read -r object; do
        source=src/${object##*.dir/src/}
        [ ! -f "${source%.o}" ] || printf '%s\n' "$object"
    done < <(find "$build" -path '*.dir/src/*.c.o')
}

# Lines "OBJECT: SYMBOL TYPE ..." of all objects; what one needs is judged when it is known who has it.
check_calls() {
    objects >"$list"
    [ -s "$list" ] || { echo "$build: no objects of src/: build it first"; return 1; }
    xargs -d '\n' "${NM:-nm}" -A -P <"$list" | awk -v rules="$rules" "$read_rules"'
    BEGIN { read_rules(rules) }
    {
        file = $1
        sub(/^.*\.dir\/src\//, "", file)
        sub(/\.o:$/, "", file)
        folder = file
        sub(/\/.*/, "", folder)
        if ($3 == "U") needs[file, $2] = folder
        else if ($3 ~ /^[A-Z]$/) { home[$2] = folder; where[$2] = file }
    }
    END {
        for (need in needs) {
            split(need, part, SUBSEP)
            symbol = part[2]
            from = needs[need]
            if (!(symbol in home) || home[symbol] == from || (from, home[symbol]) in allowed || (part[1], symbol) in may_call)
                continue
            print "src/" part[1] ": src/" from " may not use " symbol ", which is in src/" where[symbol]
            failed = 1
        }
        exit failed
    }' | sort
}

failed=0
check_includes || failed=1
if [ -n "$build" ]; then
    list=$(mktemp)
    trap 'rm -f "$list"' EXIT
    check_calls || failed=1
fi
exit $failed

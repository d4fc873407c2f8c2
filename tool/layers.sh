#!/usr/bin/env bash
# layers.sh [ROOT] - fails when a file includes a folder that layers.txt does not allow. Writes FILE:LINE for
# each.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "${1:-$here/..}"

rules=tool/layers.txt
public=$(sed -n 's/^public: *//p' "$rules")
folders=()
for folder in src $public; do
    [ ! -d "$folder" ] || folders+=("$folder")
done

# Lines "FILE:LINE:#include "PATH"" of all sources, judged one by one.
includes() {
    grep -rnE --include='*.[ch]' --include='*.def' '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' "${folders[@]}" ||
        [ $? = 1 ]
}
includes | awk -F: -v rules="$rules" '
    BEGIN {
        while ((getline row < rules) > 0) {
            if (row !~ /^[a-z]+:/ || row ~ /^public:/) continue
            count = split(row, word, /[: ]+/)
            layer[word[1]] = 1
            for (i = 2; i <= count; i++) if (word[i] != "") allowed[word[1], word[i]] = 1
        }
    }
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

#!/usr/bin/env bash
# size.sh [REVISION] - how many lines the files of each folder have, without those that are generated; with a revision also how
# many more or fewer than there. Folders under src, test and model are listed one by one, others with all that is in them.
set -euo pipefail
cd "$(dirname "$0")/.."

generated='^(include/zellige_(.*_)?ops\.h|include/zellige_checks\.h|model/text/unicode_table\.c|test/bm1690/device/|doc/api/|doc/environment\.md|test/.*/golden/)'

# Reads "LINES FILE" and writes "FOLDER LINES".
by_folder() {
    awk -v generated="$generated" '
        $2 ~ generated || $2 !~ /\.(c|h|def|tile|py|sh|md|cmake|txt)$/ { next }
        {
            parts = split($2, part, "/")
            folder = parts == 1 ? "." : part[1]
            deep = part[1] ~ /^(src|test|model)$/ ? (part[2] == "device" && part[1] == "src" ? 3 : 2) : 1
            for (i = 2; i <= deep && i < parts; i++)
                folder = folder "/" part[i]
            lines[folder] += $1
        }
        END { for (folder in lines) print folder, lines[folder] }' | sort
}

here() { git ls-files | tr "\n" "\0" | xargs -0 wc -l 2>/dev/null | grep -v " total$"; }
there() { git grep -I -c '' "$1" -- | sed -E 's/^[^:]*:(.*):([0-9]+)$/\2 \1/'; }

if [ $# = 0 ]; then
    here | by_folder | awk '{ printf "%8d  %s\n", $2, $1; all += $2 } END { printf "%8d  all\n", all }'
else
    join -a 1 -a 2 -e 0 -o 0,1.2,2.2 <(here | by_folder) <(there "$1" | by_folder) |
        awk '{ printf "%8d %+7d  %s\n", $2, $2 - $3, $1; all += $2; before += $3 }
            END { printf "%8d %+7d  all (%+.1f %%)\n", all, all - before, 100 * (all - before) / before }'
fi

# embed.cmake - writes files as a table of texts, `const struct TYPE TYPEs[]`, which HEADER declares. A row is a name, a text and, with
# HASH, a hash: cmake -DOUT=gen/bench_files.c -DFILES=a.json|b.css -DTYPE=bench_file -DHEADER=bench.h -DHASH=ON -P embed.cmake

string(REPLACE "|" ";" files "${FILES}")
set(code "// Made by the build: the files that the program or the library carries in itself.\n#include \"${HEADER}\"\n\n")
set(rows "")

# The SHA-256 of a file in base64: 12 bits, which are three hexadecimal digits, are two letters.
function(base64_hash out file)
    set(letters ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/)
    file(SHA256 ${file} digits)
    string(REGEX MATCHALL "..." groups "${digits}00")
    set(text "")
    foreach(group ${groups})
        math(EXPR high "0x${group} >> 6")
        math(EXPR low "0x${group} & 63")
        string(SUBSTRING ${letters} ${high} 1 first)
        string(SUBSTRING ${letters} ${low} 1 second)
        string(APPEND text ${first}${second})
    endforeach()
    string(REGEX REPLACE ".$" "=" text ${text}) # of its bits all were added
    set(${out} ${text} PARENT_SCOPE)
endfunction()

foreach(file ${files})
    cmake_path(GET file FILENAME name)
    string(MAKE_C_IDENTIFIER ${name} symbol)
    file(READ ${file} bytes HEX)
    string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
    string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n"
           bytes "${bytes}")
    string(APPEND code "static const char ${symbol}[] = {\n${bytes}0};\n")
    set(hash "")
    if(HASH)
        base64_hash(hash ${file})
        set(hash ", \"${hash}\"")
    endif()
    string(APPEND rows "    {\"${name}\", ${symbol}${hash}},\n")
endforeach()
string(APPEND code "\nconst struct ${TYPE} ${TYPE}s[] = {\n${rows}    {0},\n};\n")
file(WRITE ${OUT}.new "${code}")
file(COPY_FILE ${OUT}.new ${OUT} ONLY_IF_DIFFERENT)

# embed.cmake - writes files as a table of texts: cmake -DOUT=gen/bench_files.c -DFILES=a.json|b.css -P embed.cmake

string(REPLACE "|" ";" files "${FILES}")
set(code "// Made by the build: the files that `zellige bench` carries in itself.\n#include \"bench.h\"\n\n")
set(rows "")
foreach(file ${files})
    cmake_path(GET file FILENAME name)
    string(MAKE_C_IDENTIFIER ${name} symbol)
    file(READ ${file} bytes HEX)
    string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
    string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n"
           bytes "${bytes}")
    string(APPEND code "static const char ${symbol}[] = {\n${bytes}0};\n")
    string(APPEND rows "    {\"${name}\", ${symbol}},\n")
endforeach()
string(APPEND code "\nconst struct bench_file bench_files[] = {\n${rows}    {0},\n};\n")
file(WRITE ${OUT}.new "${code}")
file(COPY_FILE ${OUT}.new ${OUT} ONLY_IF_DIFFERENT)

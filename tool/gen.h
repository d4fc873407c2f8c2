// gen.h - the parts of zellige-gen.

#ifndef GEN_H
#define GEN_H

#include "base/base.h"

bool gen_pages(const char *folder);    // reference pages into folder and folder/api
bool gen_bindings(const char *path);   // ops as Python functions: C for the extension
bool gen_stubs(const char *path);      // and their types for checkers and editors

#endif

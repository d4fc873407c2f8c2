// gen.h - the parts of zellige-gen.

#ifndef GEN_H
#define GEN_H

#include "base/base.h"

bool gen_pages(const char *folder);    // writes reference pages to folder and folder/api
bool gen_bindings(const char *path);   // writes ops as Python functions: C for the extension
bool gen_stubs(const char *path);      // writes their types, for type checkers and editors

#endif

// gen.h - the parts of zellige-gen.

#ifndef GEN_H
#define GEN_H

#include "base/base.h"

bool gen_pages(const char *folder); // reference pages into folder and folder/api

#endif

// transform.h - graphs to graphs. Each transform's contract is in zellige.h; nothing is shared between them yet.

#ifndef TRANSFORM_H
#define TRANSFORM_H

#include "op/op.h"

#endif

// The files in the binary: the OpenAPI document, the support page, the reference of problems.

#pragma once

#include <stddef.h>

struct resource {
  const char *name;
  const unsigned char *bytes;
  size_t count;
};

// The file of that name; `bytes` is NULL if there is none.
struct resource resource_named(const char *name);

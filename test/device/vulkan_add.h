// vulkan_add.h - a kernel for tests of the Vulkan device that need no renderer.

#ifndef VULKAN_ADD_H
#define VULKAN_ADD_H

#include "device/vulkan/vulkan.h"

// A SPIR-V module: y[i] = x[i] + k for i < n, in groups of 64 threads; its arguments are n, then k.
enum { VULKAN_ADD_WORDS = 290 };
extern const uint32_t vulkan_add_words[VULKAN_ADD_WORDS];

struct vulkan_function *vulkan_add_function(struct vulkan_device *d); // NULL after an error
// computes to = from + k; false after an error
bool vulkan_add(struct vulkan_device *d, const void *from, const void *to, uint32_t n, uint32_t k);
void *vulkan_zeros(struct vulkan_device *d, uint32_t n); // returns memory for n words, all 0; NULL after an
                                                         // error
// returns the last of n words; all ones after an error
uint32_t vulkan_last(struct vulkan_device *d, const void *memory, uint32_t n);

#endif

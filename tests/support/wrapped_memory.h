/* SPDX-License-Identifier: MIT */
/* wrapped_memory.h -- malloc and its kin, for a test that the linker puts in their place (--wrap):
 * lockstep's code calls __wrap_malloc, which the test defines, and __real_malloc is the system's.
 */
#ifndef TEST_SUPPORT_WRAPPED_MEMORY_H
#define TEST_SUPPORT_WRAPPED_MEMORY_H

#include <stddef.h>

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__real_aligned_alloc(size_t align, size_t bytes);
int __real_posix_memalign(void **memory, size_t align, size_t bytes);
char *__real_strdup(const char *text);

void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__wrap_aligned_alloc(size_t align, size_t bytes);
int __wrap_posix_memalign(void **memory, size_t align, size_t bytes);
char *__wrap_strdup(const char *text);

#endif

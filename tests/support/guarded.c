/* SPDX-License-Identifier: MIT */
/* guarded.c -- arrays that end where memory ends. See guarded.h.
 *
 *     | page | ... | slack, array | no access |
 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */

#include "support/guarded.h"

#include <sys/mman.h>
#include <unistd.h>

#include "support/test.h"

static size_t page_bytes(void) { return (size_t)sysconf(_SC_PAGESIZE); }

/* Of the pages in front of the guard. */
static size_t array_bytes(size_t count)
{
    const size_t page = page_bytes();
    return (count * sizeof(float) + page - 1) / page * page;
}

float *guarded_copy(const float *from, size_t count)
{
    const size_t bytes = array_bytes(count), page = page_bytes();
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    char *map = mmap(NULL, bytes + page, PROT_READ | PROT_WRITE, flags, -1, 0);
    assert_true(map != MAP_FAILED);
    assert_int_equal(mprotect(map + bytes, page, PROT_NONE), 0);
    float *array = (float *)(void *)(map + bytes) - count;
    memcpy(array, from, count * sizeof *array);
    return array;
}

void guarded_free(float *array, size_t count)
{
    const size_t bytes = array_bytes(count);
    char *end = (char *)(array + count);
    assert_int_equal(munmap(end - bytes, bytes + page_bytes()), 0);
}

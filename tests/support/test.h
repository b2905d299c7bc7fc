/* SPDX-License-Identifier: MIT */
/* test.h -- cmocka and what it needs before it, in the order in which it needs it.
 *
 * Thread rule: only the main thread asserts or skips. cmocka keeps the place it jumps back to per
 * thread, so an assertion on another thread ends the program without saying why; a rank thread
 * returns a status (support/ranks.h) and main asserts.
 */
#ifndef TEST_SUPPORT_TEST_H
#define TEST_SUPPORT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#endif

/* SPDX-License-Identifier: MIT */
/* test.h -- cmocka and the headers that it needs before it, in their order. */
#ifndef LS_TESTS_SUPPORT_TEST_H
#define LS_TESTS_SUPPORT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#endif

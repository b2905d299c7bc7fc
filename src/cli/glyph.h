/* SPDX-License-Identifier: MIT */
/* glyph.h -- letters and digits as dots, to write labels into pictures. */
#ifndef LS_CLI_GLYPH_H
#define LS_CLI_GLYPH_H

#include <stdbool.h>

enum { LS_GLYPH_WIDTH = 5, LS_GLYPH_HEIGHT = 7 };

/* Is the dot in row 0 .. 6, column 0 .. 4 of `character` set? Small letters look like capitals;
 * what has no glyph (all but letters, digits, blank, - . _ + /) is a frame. Pure. */
bool ls_glyph_has_dot(char character, int row, int column);

#endif

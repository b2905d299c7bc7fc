/* SPDX-License-Identifier: MIT */
/* glyph.c -- see glyph.h. Each table is seven rows of ten glyphs, a column between them. */
#include "cli/glyph.h"

#include <string.h>

enum { PER_TABLE = 10, TABLES = 4 };

static const char order[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ-._+";

static const char *const dots[TABLES][LS_GLYPH_HEIGHT] = {
    {
        " ###    #    ###   ###     #  #####  ###  #####  ###   ### ",
        "#   #  ##   #   # #   #   ##  #     #   #     # #   # #   #",
        "#  ##   #       #     #  # #  #     #         # #   # #   #",
        "# # #   #      #    ##  #  #  ####  ####     #   ###   ####",
        "##  #   #     #       # #####     # #   #   #   #   #     #",
        "#   #   #    #    #   #    #  #   # #   #   #   #   # #   #",
        " ###   ###  #####  ###     #   ###   ###    #    ###   ### ",
    },
    {
        " ###  ####   ###  ####  ##### #####  ###  #   #  ###      #",
        "#   # #   # #   # #   # #     #     #   # #   #   #       #",
        "#   # #   # #     #   # #     #     #     #   #   #       #",
        "##### ####  #     #   # ####  ####  #  ## #####   #       #",
        "#   # #   # #     #   # #     #     #   # #   #   #       #",
        "#   # #   # #   # #   # #     #     #   # #   #   #   #   #",
        "#   # ####   ###  ####  ##### #      ###  #   #  ###   ### ",
    },
    {
        "#   # #     #   # #   #  ###  ####   ###  ####   ###  #####",
        "#  #  #     ## ## ##  # #   # #   # #   # #   # #   #   #  ",
        "# #   #     # # # # # # #   # #   # #   # #   # #       #  ",
        "##    #     #   # # # # #   # ####  #   # ####   ###    #  ",
        "# #   #     #   # # # # #   # #     # # # # #       #   #  ",
        "#  #  #     #   # #  ## #   # #     #  #  #  #  #   #   #  ",
        "#   # ##### #   # #   #  ###  #      ## # #   #  ###    #  ",
    },
    {
        "#   # #   # #   # #   # #   # #####                        ",
        "#   # #   # #   # #   # #   #     #                     #  ",
        "#   # #   # #   #  # #   # #     #                      #  ",
        "#   # #   # # # #   #     #     #   #####             #####",
        "#   #  # #  # # #  # #    #    #                        #  ",
        "#   #  # #  ## ## #   #   #   #            ##           #  ",
        " ###    #   #   # #   #   #   #####        ##   #####      ",
    },
};

bool ls_glyph_has_dot(char character, int row, int column)
{
    const bool is_small = character >= 'a' && character <= 'z';
    const char shown = is_small ? (char)(character - 'a' + 'A') : character;
    if (shown == ' ') return false;
    if (shown == '/') return column == (LS_GLYPH_HEIGHT - 1 - row) * 4 / 6;
    const char *place = shown == '\0' ? NULL : strchr(order, shown);
    if (!place) {
        return row == 0 || row == LS_GLYPH_HEIGHT - 1 || column == 0 ||
               column == LS_GLYPH_WIDTH - 1;
    }
    const int at = (int)(place - order);
    return dots[at / PER_TABLE][row][at % PER_TABLE * (LS_GLYPH_WIDTH + 1) + column] == '#';
}

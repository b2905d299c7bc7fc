/* SPDX-License-Identifier: MIT */
/* npy.h -- NumPy arrays as files: one that is mapped is checked and read, one is begun.
 *
 *     byte 0   93 'N' 'U' 'M' 'P' 'Y'
 *          6   version: 1 0, 2 0 or 3 0
 *          8   length H of the header: 2 bytes little-endian (version 1), else 4
 *     10 / 12  the header, H bytes, a Python literal:
 *              {'descr': '<f4', 'fortran_order': False, 'shape': (100, 28, 28), }
 *              padded with spaces, ended by a line feed; then the data to the end of the file
 *
 * Reading is strict: these three keys, each once, in any order; C order; elements of the types
 * below, little-endian; the data as long as the shape says, to the byte.
 *
 * [R. Kern, "A simple file format for NumPy arrays", NumPy Enhancement Proposal 1, 2007.]
 */
#ifndef LS_IO_NPY_H
#define LS_IO_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "io/data_file.h"
#include "status.h"

enum { LS_NPY_DIMS_MAX = 4 };
typedef enum { LS_NPY_U1, LS_NPY_I4, LS_NPY_I8, LS_NPY_F4, LS_NPY_F8 } ls_npy_type;

typedef struct {
    const ls_data_file *file;  /* borrowed */
    ls_npy_type type;
    size_t element_bytes;
    int dims;                  /* 1 .. 4 */
    size_t shape[LS_NPY_DIMS_MAX]; /* none 0 */
    size_t per_record;         /* elements of one record: the product of shape[1..] */
    size_t data_at;            /* byte where the data begins */
} ls_npy;

/* The array in `file`. Errors: FORMAT (byte, found, expected). */
LS_MUST_USE ls_status ls_npy_open(const ls_data_file *file, ls_npy *out);

/* F4 and F8 are floats, the others whole numbers. */
bool ls_npy_is_float(const ls_npy *array);

/* Element i in the order of the file: the byte where it begins; its value, of a float array and of
 * one of whole numbers. */
size_t ls_npy_place(const ls_npy *array, size_t i);
double ls_npy_float(const ls_npy *array, size_t i);
int64_t ls_npy_whole(const ls_npy *array, size_t i);

/* What comes before the data of an array [rows, columns] of F4, version 1.0, so that they begin on
 * a multiple of 64. Returns its bytes. */
enum { LS_NPY_HEADER_BYTES = 192 };
size_t ls_npy_header(size_t rows, size_t columns, unsigned char out[LS_NPY_HEADER_BYTES]);

#endif

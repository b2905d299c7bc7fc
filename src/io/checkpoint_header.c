/* SPDX-License-Identifier: MIT */
/* checkpoint_header.c -- reading and checking the JSON header of a checkpoint.
 *
 * The header's CRC is checked before its text is read, so that damage is called damage and not a
 * syntax error. After that nothing is trusted either: a CRC guards against accidents, not against a
 * file made to harm. Sizes are multiplied with overflow checks, and every number is checked before
 * it is used.
 */
#include "io/checkpoint_header.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/checkpoint_crc.h"
#include "io/json.h"
#include "plural.h"

static const struct {
    const char *name;
    size_t bytes;
} dtypes[] = {
    [LS_DTYPE_F32] = { "F32", 4 },
    [LS_DTYPE_F64] = { "F64", 8 },
    [LS_DTYPE_I64] = { "I64", 8 },
    [LS_DTYPE_U32] = { "U32", 4 },
};
enum { DTYPE_COUNT = sizeof dtypes / sizeof dtypes[0] };

const char *ls_dtype_name(ls_dtype dtype) { return dtypes[dtype].name; }
size_t ls_dtype_bytes(ls_dtype dtype) { return dtypes[dtype].bytes; }

size_t ls_saved_tensor_count(const ls_saved_tensor *tensor)
{
    size_t count = 1;
    for (int d = 0; d < tensor->dims; d++) count *= tensor->shape[d];
    return count;
}

/* -- reading --------------------------------------------------------------------------------- */

/* `array` of `count` elements with room for one more, or NULL (then `array` is still there). Arrays
 * grow when their count is a power of two or 0. */
static void *with_room(void *array, int count, size_t element_bytes)
{
    if (count & (count - 1)) return array;
    void *grown = realloc(array, (count ? (size_t)count * 2 : 1) * element_bytes);
    if (!grown) (void)ls_fail(LS_ERR_MEMORY, "no memory for a checkpoint's header");
    return grown;
}

static ls_status read_dtype(ls_json_reader *r, ls_dtype *out)
{
    char *name;
    LS_TRY(ls_json_read_string(r, &name));
    int i = 0;
    while (i < DTYPE_COUNT && strcmp(name, dtypes[i].name) != 0) i++;
    free(name);
    if (i == DTYPE_COUNT) return ls_json_expected(r, "dtype F32, F64, I64 or U32 before this");
    *out = (ls_dtype)i;
    return LS_OK;
}

/* An array of at most `max` numbers. */
static ls_status read_counts(ls_json_reader *r, size_t *out, int max, int *count)
{
    bool more;
    LS_TRY(ls_json_read_open(r, '['));
    for (*count = 0; ; (*count)++) {
        LS_TRY(ls_json_read_next(r, &more));
        if (!more) return LS_OK;
        if (*count == max) return ls_json_expected(r, "fewer numbers");
        uint64_t x;
        LS_TRY(ls_json_read_count(r, &x));
        out[*count] = (size_t)x;
    }
}

/* The object of one tensor: dtype, shape, data_offsets, once each. */
static ls_status read_tensor(ls_json_reader *r, ls_header_tensor *t)
{
    static const char *const field[] = { "dtype", "shape", "data_offsets" };
    unsigned seen = 0;
    LS_TRY(ls_json_read_open(r, '{'));
    for (;;) {
        bool more;
        LS_TRY(ls_json_read_next(r, &more));
        if (!more) break;
        char *key;
        LS_TRY(ls_json_read_key(r, &key));
        unsigned f = 0;
        while (f < 3 && strcmp(key, field[f]) != 0) f++;
        free(key);
        if (f == 3 || seen & 1u << f) {
            return ls_json_expected(r, "dtype, shape and data_offsets once each, before this");
        }
        seen |= 1u << f;
        size_t offset[2];
        int count;
        if (f == 0) LS_TRY(read_dtype(r, &t->saved.dtype));
        if (f == 1) LS_TRY(read_counts(r, t->saved.shape, LS_TENSOR_DIMS_MAX, &t->saved.dims));
        if (f == 2) {
            LS_TRY(read_counts(r, offset, 2, &count));
            if (count != 2) return ls_json_expected(r, "two data_offsets before this");
            t->begin = offset[0];
            t->end = offset[1];
        }
    }
    return seen == 7 ? LS_OK : ls_json_expected(r, "dtype, shape and data_offsets before this");
}

/* May `name` be shown on a terminal and stored? No blanks, no control characters, not empty. */
static bool is_name(const char *name)
{
    for (const unsigned char *p = (const unsigned char *)name; *p; p++) {
        if (*p <= 0x20 || *p == 0x7F) return false;
    }
    return *name != '\0';
}

static ls_status read_metadata(ls_json_reader *r, ls_header *header)
{
    if (header->text) return ls_json_expected(r, "__metadata__ once");
    LS_TRY(ls_json_read_open(r, '{'));
    for (;;) {
        bool more;
        LS_TRY(ls_json_read_next(r, &more));
        if (!more) return LS_OK;
        ls_header_text *text = with_room(header->text, header->text_count, sizeof *text);
        if (!text) return LS_ERR_MEMORY;
        header->text = text;
        text += header->text_count;
        *text = (ls_header_text){ 0 };
        header->text_count++; /* from here on the header owns what is read */
        LS_TRY(ls_json_read_key(r, &text->key));
        if (!is_name(text->key)) return ls_json_expected(r, "a key without blanks before this");
        LS_TRY(ls_json_read_string(r, &text->text));
    }
}

static ls_status read_entry(ls_json_reader *r, ls_header *header, const char *name)
{
    if (strcmp(name, "__metadata__") == 0) return read_metadata(r, header);
    if (!is_name(name) || strlen(name) >= LS_TENSOR_NAME_BYTES) {
        return ls_json_expected(r, "a name of 1 to 127 bytes without blanks before this");
    }
    ls_header_tensor *t = with_room(header->tensor, header->tensor_count, sizeof *t);
    if (!t) return LS_ERR_MEMORY;
    header->tensor = t;
    t += header->tensor_count;
    *t = (ls_header_tensor){ 0 };
    snprintf(t->saved.name, sizeof t->saved.name, "%s", name);
    header->tensor_count++;
    return read_tensor(r, t);
}

static ls_status read_entries(ls_json_reader *r, ls_header *header)
{
    LS_TRY(ls_json_read_open(r, '{'));
    for (;;) {
        bool more;
        LS_TRY(ls_json_read_next(r, &more));
        if (!more) return ls_json_read_end(r);
        char *name;
        LS_TRY(ls_json_read_key(r, &name));
        const ls_status status = read_entry(r, header, name);
        free(name);
        LS_TRY(status);
    }
}

/* -- checking -------------------------------------------------------------------------------- */

static int by_key(const void *a, const void *b)
{
    return strcmp(((const ls_header_text *)a)->key, ((const ls_header_text *)b)->key);
}

const char *ls_header_find_text(const ls_header *header, const char *key)
{
    int low = 0, high = header->text_count; /* it is in [low, high), if anywhere */
    while (low < high) {
        const int middle = low + (high - low) / 2;
        const int order = strcmp(key, header->text[middle].key);
        if (order == 0) return header->text[middle].text;
        if (order < 0) high = middle;
        else low = middle + 1;
    }
    return NULL;
}

/* Sort the metadata; no key may be there twice. */
static ls_status check_texts(const char *path, ls_header *header)
{
    if (header->text_count == 0) return LS_OK;
    qsort(header->text, (size_t)header->text_count, sizeof header->text[0], by_key);
    for (int i = 1; i < header->text_count; i++) {
        if (by_key(&header->text[i - 1], &header->text[i]) == 0) {
            return ls_fail(LS_ERR_FORMAT, "%s: header: metadata %s is there twice", path,
                           header->text[i].key);
        }
    }
    return LS_OK;
}

/* Bytes of a tensor's data, SIZE_MAX if that does not fit. */
static size_t checked_bytes(const ls_saved_tensor *t)
{
    size_t bytes = ls_dtype_bytes(t->dtype);
    bool is_empty = false;
    for (int d = 0; d < t->dims; d++) is_empty = is_empty || t->shape[d] == 0;
    if (is_empty) return 0;
    for (int d = 0; d < t->dims; d++) {
        if (bytes > SIZE_MAX / t->shape[d]) return SIZE_MAX;
        bytes *= t->shape[d];
    }
    return bytes;
}

/* Tensor `t` follows data that end at `begin`. */
static ls_status check_tensor(const char *path, const ls_header *header, ls_header_tensor *t,
                              size_t begin)
{
    const char *name = t->saved.name;
    const size_t bytes = checked_bytes(&t->saved);
    if (t->begin != begin) {
        return ls_fail(LS_ERR_FORMAT, "%s: tensor %s: begins at byte %zu of the data, but what is "
                                      "before it ends at %zu: %s", path, name, t->begin, begin,
                       t->begin > begin ? "a hole" : "an overlap");
    }
    if (t->end < t->begin || t->end - t->begin != bytes) {
        return ls_fail(LS_ERR_FORMAT, "%s: tensor %s: data_offsets %zu to %zu, but dtype and shape "
                                      "need %zu bytes", path, name, t->begin, t->end, bytes);
    }
    if (t->begin % ls_dtype_bytes(t->saved.dtype) != 0) {
        return ls_fail(LS_ERR_FORMAT, "%s: tensor %s: byte %zu is not aligned to its %zu-byte "
                                      "elements", path, name, t->begin,
                       ls_dtype_bytes(t->saved.dtype));
    }
    char key[sizeof LS_CRC_PREFIX + LS_TENSOR_NAME_BYTES];
    snprintf(key, sizeof key, LS_CRC_PREFIX "%s", name);
    const char *digits = ls_header_find_text(header, key);
    if (!digits || strlen(digits) != LS_CRC_DIGITS || !ls_crc_read(digits, &t->crc)) {
        return ls_fail(LS_ERR_FORMAT, "%s: tensor %s: no metadata %s of 8 hexadecimal digits",
                       path, name, key);
    }
    return LS_OK;
}

static int by_name(const void *a, const void *b)
{
    const ls_header_tensor *const *x = a, *const *y = b;
    return strcmp((*x)->saved.name, (*y)->saved.name);
}

static ls_status check_names(const char *path, const ls_header *header)
{
    const size_t count = (size_t)header->tensor_count;
    const ls_header_tensor **sorted = malloc((count + 1) * sizeof *sorted);
    if (!sorted) return ls_fail(LS_ERR_MEMORY, "no memory for a checkpoint's header");
    for (size_t i = 0; i < count; i++) sorted[i] = &header->tensor[i];
    qsort(sorted, count, sizeof *sorted, by_name);
    ls_status status = LS_OK;
    for (size_t i = 1; i < count && status == LS_OK; i++) {
        if (by_name(&sorted[i - 1], &sorted[i]) == 0) {
            status = ls_fail(LS_ERR_FORMAT, "%s: tensor %s: is there twice", path,
                             sorted[i]->saved.name);
        }
    }
    free(sorted);
    return status;
}

static ls_status check_tensors(const char *path, ls_header *header)
{
    LS_TRY(check_names(path, header));
    size_t end = 0;
    for (int i = 0; i < header->tensor_count; i++) {
        LS_TRY(check_tensor(path, header, &header->tensor[i], end));
        end = header->tensor[i].end;
    }
    header->data_bytes = end;
    int crc_count = 0; /* every tensor has one, so that more means one without a tensor */
    for (int i = 0; i < header->text_count; i++) {
        crc_count += strncmp(header->text[i].key, LS_CRC_PREFIX, sizeof LS_CRC_PREFIX - 1) == 0;
    }
    if (crc_count == header->tensor_count + 1) return LS_OK;
    return ls_fail(LS_ERR_FORMAT, "%s: header: %d check%s for %d tensor%s: one is missing", path,
                   crc_count - 1, LS_PLURAL(crc_count - 1), header->tensor_count,
                   LS_PLURAL(header->tensor_count));
}

ls_status ls_header_parse(ls_header *header, const char *path, const char *json,
                          size_t byte_count)
{
    *header = (ls_header){ 0 };
    LS_TRY(ls_header_crc_check(path, json, byte_count));
    char name[256];
    snprintf(name, sizeof name, "%s: header", path);
    ls_json_reader r;
    ls_json_read_init(&r, name, json, byte_count, sizeof(uint64_t));
    ls_status status = read_entries(&r, header);
    if (status == LS_OK) status = check_texts(path, header);
    if (status == LS_OK) status = check_tensors(path, header);
    if (status != LS_OK) ls_header_free(header);
    return status;
}

void ls_header_free(ls_header *header)
{
    for (int i = 0; i < header->text_count; i++) {
        free(header->text[i].key);
        free(header->text[i].text);
    }
    free(header->text);
    free(header->tensor);
    *header = (ls_header){ 0 };
}

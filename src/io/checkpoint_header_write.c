/* SPDX-License-Identifier: MIT */
/* checkpoint_header_write.c -- writing the JSON header of a checkpoint. */
#include <stdio.h>

#include "crc32c.h"
#include "io/checkpoint_crc.h"
#include "io/checkpoint_header.h"
#include "io/json.h"

enum { DATA_ALIGNMENT = 64 };

static void write_metadata(ls_json_writer *w, const ls_saved_tensor *const *tensor,
                           int tensor_count, const ls_saved_text *text, int text_count)
{
    ls_json_write_key(w, "__metadata__");
    ls_json_write_open(w, '{');
    ls_json_member_string(w, LS_CRC_PREFIX "header", "00000000"); /* until the rest is known */
    for (int i = 0; i < text_count; i++) {
        ls_json_member_string(w, text[i].key, text[i].text);
    }
    for (int i = 0; i < tensor_count; i++) {
        const size_t bytes = ls_saved_tensor_count(tensor[i]) * ls_dtype_bytes(tensor[i]->dtype);
        char key[sizeof LS_CRC_PREFIX + LS_TENSOR_NAME_BYTES], digits[LS_CRC_DIGITS + 1];
        snprintf(key, sizeof key, LS_CRC_PREFIX "%s", tensor[i]->name);
        ls_crc_write(ls_crc32c(0, tensor[i]->data, bytes), digits);
        ls_json_member_string(w, key, digits);
    }
    ls_json_write_close(w, '}');
}

/* One tensor's object; its data begin at `begin`. Returns where they end. */
static size_t write_tensor(ls_json_writer *w, const ls_saved_tensor *t, size_t begin)
{
    const size_t end = begin + ls_saved_tensor_count(t) * ls_dtype_bytes(t->dtype);
    ls_json_write_key(w, t->name);
    ls_json_write_open(w, '{');
    ls_json_member_string(w, "dtype", ls_dtype_name(t->dtype));
    ls_json_write_key(w, "shape");
    ls_json_write_open(w, '[');
    for (int d = 0; d < t->dims; d++) ls_json_write_count(w, t->shape[d]);
    ls_json_write_close(w, ']');
    ls_json_write_key(w, "data_offsets");
    ls_json_write_open(w, '[');
    ls_json_write_count(w, begin);
    ls_json_write_count(w, end);
    ls_json_write_close(w, ']');
    ls_json_write_close(w, '}');
    return end;
}

ls_status ls_header_write(const ls_saved_tensor *const *tensor, int tensor_count,
                          const ls_saved_text *text, int text_count, char **json,
                          size_t *byte_count)
{
    ls_json_writer w = { 0 };
    ls_json_write_open(&w, '{');
    write_metadata(&w, tensor, tensor_count, text, text_count);
    size_t end = 0;
    for (int i = 0; i < tensor_count; i++) end = write_tensor(&w, tensor[i], end);
    ls_json_write_close(&w, '}');
    while ((sizeof(uint64_t) + w.byte_count) % DATA_ALIGNMENT != 0 && !w.failed) {
        ls_json_write_raw(&w, " ", 1);
    }
    LS_TRY(ls_json_write_end(&w, json, byte_count));
    ls_header_crc_write(*json, *byte_count);
    return LS_OK;
}

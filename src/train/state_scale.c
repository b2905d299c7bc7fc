/* SPDX-License-Identifier: MIT */
/* state_scale.c -- what was done to a run's data, written and read back. See state_scale.h.
 *
 * A network is worth nothing without the numbers that its input was scaled by, so they go with its
 * weights: whatever it is applied to later is scaled as its training part was (apply.c). They are
 * doubles and are stored as such, for the same bits.
 */
#include "train/state_scale.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "printable.h"

static const char *const tensor_name[LS_SCALE_TENSORS] = { "scale/mean", "scale/deviation" };

void ls_state_scale_text(const ls_scale_rule *scale, char out[LS_SCALE_TEXT_BYTES])
{
    switch (scale->kind) {
    case LS_SCALE_NONE: snprintf(out, LS_SCALE_TEXT_BYTES, "none"); break;
    case LS_SCALE_DIVIDE:
        snprintf(out, LS_SCALE_TEXT_BYTES, "divide %.17g", scale->divisor);
        break;
    case LS_SCALE_STANDARD:
        snprintf(out, LS_SCALE_TEXT_BYTES, "standard %.17g", scale->unit);
        break;
    }
}

int ls_state_scale_tensors(const ls_scale_rule *scale, ls_saved_tensor out[LS_SCALE_TENSORS])
{
    const double *const data[LS_SCALE_TENSORS] = { scale->mean, scale->std };
    if (scale->kind != LS_SCALE_STANDARD) return 0;
    for (int t = 0; t < LS_SCALE_TENSORS; t++) {
        out[t] = (ls_saved_tensor){ .dtype = LS_DTYPE_F64, .dims = 1, .data = data[t],
                                    .shape = { scale->channels } };
        snprintf(out[t].name, sizeof out[t].name, "%s", tensor_name[t]);
    }
    return LS_SCALE_TENSORS;
}

bool ls_state_scale_has(const char *tensor)
{
    return strcmp(tensor, tensor_name[0]) == 0 || strcmp(tensor, tensor_name[1]) == 0;
}

/* Mean and deviation: as many of the one as of the other, finite, the second above 0. */
static ls_status load_statistics(const ls_checkpoint *checkpoint, const char *path,
                                 ls_scale_rule *out)
{
    const double *data[LS_SCALE_TENSORS];
    for (int t = 0; t < LS_SCALE_TENSORS; t++) {
        const ls_saved_tensor *tensor = ls_checkpoint_tensor(checkpoint, tensor_name[t]);
        if (!tensor)
            return ls_fail(LS_ERR_FORMAT, "%s: its scale is standard, but there is no tensor %s",
                           path, tensor_name[t]);
        if (tensor->dtype != LS_DTYPE_F64 || tensor->dims != 1
            || (t > 0 && tensor->shape[0] != out->channels))
            return ls_fail(LS_ERR_FORMAT, "%s: %s: expected F64 numbers, one per channel, as many "
                           "as of %s", path, tensor_name[t], tensor_name[1 - t]);
        data[t] = tensor->data;
        out->channels = tensor->shape[0];
        for (size_t c = 0; c < out->channels; c++)
            if (!isfinite(data[t][c]) || (t > 0 && !(data[t][c] > 0)))
                return ls_fail(LS_ERR_FORMAT, "%s: %s: element %zu is %g, expected a finite "
                               "number%s", path, tensor_name[t], c,
                               ls_printable(data[t][c]),
                               t > 0 ? " above 0" : "");
    }
    out->mean = data[0];
    out->std = data[1];
    return LS_OK;
}

/* The number after `word` and a blank, above 0; 0 if `text` is something else. */
static double number_after(const char *word, const char *text)
{
    const size_t letters = strlen(word);
    char *end;
    if (strncmp(text, word, letters) != 0 || text[letters] != ' ') return 0;
    const double x = strtod(text + letters, &end);
    return *end == '\0' && isfinite(x) && x > 0 ? x : 0;
}

ls_status ls_state_scale_load(const ls_checkpoint *checkpoint, const char *path,
                              ls_scale_rule *out, bool *has)
{
    const char *text = ls_checkpoint_text(checkpoint, "scale");
    *out = (ls_scale_rule){ .kind = LS_SCALE_NONE };
    *has = text != NULL;
    if (!text || strcmp(text, "none") == 0) return LS_OK;
    out->divisor = number_after("divide", text);
    out->unit = number_after("standard", text);
    if (out->divisor == 0 && out->unit == 0)
        return ls_fail(LS_ERR_FORMAT, "%s: its scale is \"%.60s\", expected none, divide D or "
                       "standard UNIT", path, text);
    out->kind = out->unit > 0 ? LS_SCALE_STANDARD : LS_SCALE_DIVIDE;
    return out->unit > 0 ? load_statistics(checkpoint, path, out) : LS_OK;
}

/* SPDX-License-Identifier: MIT */
/* driver_error.c -- names and texts of results.
 *
 * After a fault the text of its result carries what happened: the kernel, its thread and line, or
 * the missing order. A backend that prints cuGetErrorString prints it all.
 */
#include "driver.h"

#include <stdio.h>

CUresult cuGetErrorName(CUresult error, const char **name)
{
    VGPU_BEGIN(vgpu_enter_any);
    if (name == NULL) return vgpu_leave(CUDA_ERROR_INVALID_VALUE);
    *name = NULL;
    switch (error) {
#define RESULT_NAME(result, value, text) \
    case result: *name = #result; break;
        VGPU_RESULTS(RESULT_NAME)
    }
    return vgpu_leave(*name != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

static const char *plain_text(CUresult error)
{
    switch (error) {
#define RESULT_TEXT(result, value, text) \
    case result: return text;
        VGPU_RESULTS(RESULT_TEXT)
    }
    return NULL;
}

/* "<plain>: <what happened>", made at most once for each of a few results; vgpu.call. */
static const char *full_text(CUresult error, const char *plain, const char *happened)
{
    enum { TEXTS = 16 };
    static struct {
        CUresult error;
        char text[1200];
    } made[TEXTS];
    static size_t count;
    for (size_t i = 0; i < count; i++)
        if (made[i].error == error) return made[i].text;
    if (count == TEXTS) return plain;
    made[count].error = error;
    snprintf(made[count].text, sizeof made[count].text, "%s: %s", plain, happened);
    return made[count++].text;
}

CUresult cuGetErrorString(CUresult error, const char **text)
{
    VGPU_BEGIN(vgpu_enter_any);
    if (text == NULL) return vgpu_leave(CUDA_ERROR_INVALID_VALUE);
    *text = plain_text(error);
    if (*text == NULL) return vgpu_leave(CUDA_ERROR_INVALID_VALUE);
    const char *happened = vgpu_fault_text(error);
    if (happened != NULL) *text = full_text(error, *text, happened);
    return vgpu_leave(CUDA_SUCCESS);
}

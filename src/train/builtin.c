/* SPDX-License-Identifier: MIT */
/* builtin.c -- the models that are part of the binary, and what MODEL on the command line means.
 *
 * The texts are src/models/<name>.model, brought in by src/embed.S. A built-in name wins over a
 * file of the same name; "./mlp" is then the file.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nearest.h"
#include "train/model.h"
#include "train/model_parse.h"

extern const char ls_embedded_model_cifar10_cnn[], ls_embedded_model_digits_cnn[],
    ls_embedded_model_linear[], ls_embedded_model_mlp[], ls_embedded_model_mnist_mlp[],
    ls_embedded_model_resnet18[], ls_embedded_model_resnet20[], ls_embedded_model_resnet50[];

static const char *const names[] = { "digits-cnn", "cifar10-cnn", "mnist-mlp", "mlp", "linear",
                                     "resnet20", "resnet18", "resnet50", NULL };
static const char *const texts[] = { ls_embedded_model_digits_cnn, ls_embedded_model_cifar10_cnn,
                                     ls_embedded_model_mnist_mlp, ls_embedded_model_mlp,
                                     ls_embedded_model_linear, ls_embedded_model_resnet20,
                                     ls_embedded_model_resnet18, ls_embedded_model_resnet50 };

const char *const *ls_model_builtin_names(void) { return names; }

const char *ls_model_builtin(const char *name)
{
    for (int i = 0; names[i]; i++) {
        if (strcmp(names[i], name) == 0) return texts[i];
    }
    return NULL;
}

/* Neither a built-in model nor a readable file. */
static ls_status unknown_model(const char *name, int error)
{
    const char *nearest = error == ENOENT ? ls_nearest_name(name, names) : NULL;
    char all[160] = "";
    for (int i = 0; names[i]; i++) {
        const size_t used = strlen(all);
        snprintf(all + used, sizeof all - used, "%s%s", i > 0 ? ", " : "", names[i]);
    }
    return ls_fail(LS_ERR_ARGUMENT,
                   "model '%.200s': no built-in model has this name, and as a file: %s%s%s%s "
                   "(built in: %s)", name, strerror(error), nearest ? "; did you mean '" : "",
                   nearest ? nearest : "", nearest ? "'?" : "", all);
}

static ls_status read_text(const char *path, FILE *file, char *text)
{
    const size_t bytes = fread(text, 1, LS_MODEL_TEXT_BYTES_MAX + 1, file);
    if (ferror(file)) return unknown_model(path, errno);
    if (bytes > LS_MODEL_TEXT_BYTES_MAX) {
        return ls_fail(LS_ERR_ARGUMENT, "%s: more than %d bytes; this is no model file", path,
                       LS_MODEL_TEXT_BYTES_MAX);
    }
    if (memchr(text, 0, bytes)) {
        return ls_fail(LS_ERR_ARGUMENT, "%s: byte %zu is 0; a model file is plain text", path,
                       (size_t)((char *)memchr(text, 0, bytes) - text));
    }
    text[bytes] = '\0';
    return LS_OK;
}

ls_status ls_model_text(const char *name_or_path, char **text)
{
    *text = NULL;
    const char *builtin = ls_model_builtin(name_or_path);
    FILE *file = builtin ? NULL : fopen(name_or_path, "rb");
    if (!builtin && !file) return unknown_model(name_or_path, errno);
    ls_status status = LS_OK;
    char *copy = calloc(LS_MODEL_TEXT_BYTES_MAX + 2, 1);
    if (!copy) {
        status = ls_fail(LS_ERR_MEMORY, "no memory for the text of model '%s'", name_or_path);
    } else if (builtin) {
        memcpy(copy, builtin, strlen(builtin) + 1);
    } else {
        status = read_text(name_or_path, file, copy);
    }
    if (file) fclose(file);
    if (status != LS_OK) {
        free(copy);
        return status;
    }
    char *fitted = realloc(copy, strlen(copy) + 1);
    *text = fitted ? fitted : copy;
    return LS_OK;
}

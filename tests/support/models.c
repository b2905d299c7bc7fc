/* SPDX-License-Identifier: MIT */
/* models.c -- see models.h. */
#include "support/test.h"

#include "support/models.h"

const ls_dataset_info digits_info = {
    .is_image = true, .height = 8, .width = 8, .channels = 1,
    .task = LS_TASK_CLASSIFY, .classes = 10,
    .count = { 100, 10 }
};
const ls_dataset_info cifar_info = {
    .is_image = true, .height = 32, .width = 32, .channels = 3,
    .task = LS_TASK_CLASSIFY, .classes = 10,
    .count = { 100, 10 }
};
const ls_dataset_info mnist_info = {
    .is_image = true, .height = 28, .width = 28, .channels = 1,
    .task = LS_TASK_CLASSIFY, .classes = 10,
    .count = { 100, 10 }
};
const ls_dataset_info diabetes_info = {
    .height = 1, .width = 1, .channels = 10,
    .task = LS_TASK_REGRESS, .outputs = 1,
    .count = { 442, 0 }
};

ls_model model_of(const char *text, const ls_dataset_info *data)
{
    ls_model model;
    if (ls_model_init(&model, "m", text, data) != LS_OK) {
        fail_msg("refused: %s\n%s", ls_last_error(), text);
    }
    return model;
}

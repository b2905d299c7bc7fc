/* SPDX-License-Identifier: MIT */
/* models.h -- data that models are read for, and a model that must be right.
 */
#ifndef TEST_SUPPORT_MODELS_H
#define TEST_SUPPORT_MODELS_H

#include "train/model.h"

/* The shapes of the built-in models' data. */
extern const ls_dataset_info digits_info, cifar_info, mnist_info, diabetes_info;

/* The model that `text` says, named "m", for these data or NULL. Fails the running test if it is
 * refused; the caller frees it. */
ls_model model_of(const char *text, const ls_dataset_info *data);

#endif

/* SPDX-License-Identifier: MIT */
/* data.c -- `lockstep data`: `verify` opens a data set, which checks it, and says what is in it;
 * `show` draws what a network sees of it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/contact_sheet.h"
#include "cli/options.h"
#include "io/dataset.h"

enum { FLAG_OUT, FLAG_COUNT, FLAG_PART, FLAG_EPOCH };
enum { COUNT_USUAL = 64, COUNT_MAX = 4096, EPOCH_MAX = 1000000000 };

static ls_status run_verify(const ls_invocation *v, int *exit_code)
{
    (void)exit_code;
    ls_dataset *dataset = NULL;
    LS_TRY(ls_dataset_open(v->argument[0], &dataset));
    char *text = NULL;
    const ls_status status = ls_dataset_report(dataset, &text);
    if (status == LS_OK) fputs(text, stdout);
    free(text);
    ls_dataset_close(dataset);
    return status;
}

/* What to draw, but for the data set. */
static ls_status read_sheet(const ls_invocation *v, ls_contact_sheet *sheet)
{
    ls_config config;
    int count, epoch;
    bool is_test;
    ls_config_init(&config);
    LS_TRY(ls_invocation_config(v, &config));
    LS_TRY(ls_flag_count(v, FLAG_COUNT, 1, COUNT_MAX, COUNT_USUAL, &count));
    LS_TRY(ls_flag_count(v, FLAG_EPOCH, 1, EPOCH_MAX, 1, &epoch));
    LS_TRY(ls_flag_choice(v, FLAG_PART, "train", "test", &is_test));
    const char *end = v->flag[FLAG_OUT] ? strrchr(v->flag[FLAG_OUT], '.') : NULL;
    if (!v->flag[FLAG_OUT])
        return ls_fail(LS_ERR_ARGUMENT, "data show: no --out, expected --out FILE.png");
    if (!end || strcmp(end, ".png") != 0)
        return ls_fail(LS_ERR_ARGUMENT, "--out: found '%.200s', expected a file that ends in .png",
                       v->flag[FLAG_OUT]);
    *sheet = (ls_contact_sheet){
        .part = is_test ? LS_PART_TEST : LS_PART_TRAIN,
        .count = (size_t)count,
        .augment = config.augment,
        .seed = config.seed,
        .epoch = (uint32_t)epoch - 1,
        .shuffle = config.shuffle,
    };
    return LS_OK;
}

static ls_status draw(const ls_contact_sheet *sheet, const char *path)
{
    ls_image image;
    LS_TRY(ls_contact_sheet_draw(sheet, &image));
    const ls_status status = ls_png_save(&image, path);
    if (status == LS_OK) printf("%s: %zu x %zu pixels\n", path, image.width, image.height);
    free(image.pixels);
    return status;
}

static ls_status run_show(const ls_invocation *v, int *exit_code)
{
    (void)exit_code;
    ls_contact_sheet sheet;
    ls_dataset *dataset = NULL;
    LS_TRY(read_sheet(v, &sheet));
    LS_TRY(ls_dataset_open(v->argument[0], &dataset));
    sheet.dataset = dataset;
    const ls_status status = draw(&sheet, v->flag[FLAG_OUT]);
    ls_dataset_close(dataset);
    return status;
}

const ls_command ls_command_data_verify = {
    .name = "data verify",
    .arguments = "SPEC",
    .summary = "check a data set and say what is in it",
    .about =
        "Checks every length, count, label and number of a data set, as train does before step 0,\n"
        "and prints what is in it. SPEC is what --data takes:\n"
        "\n"
        "  digits                      8x8 optical digits, built in\n"
        "  cifar10:DIR                 the binary release\n"
        "  cifar100:DIR[,label=fine|coarse]\n"
        "  idx:DIR                     MNIST's layout, unpacked\n"
        "  csv:FILE[,label=last|first|N|none][,header=no|yes][,task=class|regress][,outputs=K]\n"
        "      [,weights=last|first|N][,test=every:5|FILE|none]\n"
        "  npy:X.npy,Y.npy[,weights=W.npy][,test=X.npy,Y.npy|every:K|none]\n"
        "  npy:X.npy                   samples alone, to predict\n"
        "  each then with [,scale=255|none|standard], the files with [,bad=stop|skip]\n",
    .arguments_min = 1,
    .arguments_max = 1,
    .run = run_verify,
};

static const char *const show_takes[] = { "augment", "seed", "shuffle", NULL };

const ls_command ls_command_data_show = {
    .name = "data show",
    .arguments = "SPEC --out FILE.png [option ...]",
    .summary = "draw what a network sees of a data set of pictures",
    .about = "Writes a PNG of the first samples that a training takes in an epoch, augmented as\n"
             "it would augment them, before the scale; below each its class or first target.\n"
             "Small pictures are enlarged. With --part test: the first test samples, as they\n"
             "are.\n",
    .arguments_min = 1,
    .arguments_max = 1,
    .takes = show_takes,
    .flag = { [FLAG_OUT] = { "out", "FILE.png", "the file to write" },
              [FLAG_COUNT] = { "count", "K", "samples (default 64)" },
              [FLAG_PART] = { "part", "train|test", "which part of the data (default train)" },
              [FLAG_EPOCH] = { "epoch", "E", "of the training, counted from 1 (default 1)" } },
    .run = run_show,
};

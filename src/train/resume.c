/* SPDX-License-Identifier: MIT */
/* resume.c -- which checkpoint continues, and under which configuration.
 *
 * A run that continues keeps the configuration stored with it. What the user gives anew may replace
 * an option only if it cannot change a bit (devices, threads, paths), or if it makes the run longer
 * (epochs, steps, until). Anything else must equal what is stored, or it is an error that shows
 * both values: the way to train on with other settings is a new run with --init.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "train/run.h"

typedef enum { ABSENT, FOLDER, FILE_THERE } presence;

/* What is at `path`. What cannot be looked at is not taken for absent: a run would start anew over
 * it; nor for a file that is damaged: it may be looked at another time. */
static ls_status look_at(const char *path, presence *out)
{
    struct stat info;
    *out = ABSENT;
    if (stat(path, &info) == 0) *out = S_ISDIR(info.st_mode) ? FOLDER : FILE_THERE;
    else if (errno != ENOENT && errno != ENOTDIR)
        return ls_fail(LS_ERR_IO, "%s: cannot be looked at: %s", path, strerror(errno));
    return LS_OK;
}

/* path = the last checkpoint of a run's folder, "" if there is none. */
static ls_status find_last(const char *folder, char *path, size_t bytes)
{
    presence found;
    snprintf(path, bytes, "%s/checkpoints/last.safetensors", folder);
    LS_TRY(look_at(path, &found));
    if (found == ABSENT) path[0] = '\0';
    return LS_OK;
}

/* `folder` has no checkpoints/last.safetensors. An error if it is itself a run's checkpoints/. */
static ls_status refuse_inner_folder(const char *option, const char *folder)
{
    struct stat info;
    char inner[LS_TEXT_BYTES + sizeof "/last.safetensors"];
    snprintf(inner, sizeof inner, "%s/last.safetensors", folder);
    if (stat(inner, &info) != 0) return LS_OK;
    return ls_fail(LS_ERR_FORMAT, "%s%s: no checkpoints/last.safetensors in this folder, but %s: "
                   "name that file, or the run's folder, the one above", option, folder, inner);
}

ls_status ls_checkpoint_find(const char *argument, char *path, size_t bytes)
{
    presence found;
    LS_TRY(look_at(argument, &found));
    if (found != FOLDER) {
        snprintf(path, bytes, "%s", argument);
        return LS_OK;
    }
    LS_TRY(find_last(argument, path, bytes));
    if (path[0]) return LS_OK;
    LS_TRY(refuse_inner_folder("", argument));
    return ls_fail(LS_ERR_FORMAT, "%s: no checkpoints/last.safetensors in this folder", argument);
}

ls_status ls_resume_find(const ls_config *config, char *path, size_t bytes)
{
    const char *resume = config->resume;
    const bool automatic = strcmp(resume, "auto") == 0;
    path[0] = '\0';
    if (!resume[0]) return LS_OK;
    if (automatic && !config->out[0])
        return ls_fail(LS_ERR_ARGUMENT, "--resume auto needs --out DIR: the run folder that is "
                       "started or continued");
    presence found = FOLDER;
    if (!automatic) LS_TRY(look_at(resume, &found));
    if (found != FOLDER) return ls_checkpoint_find(resume, path, bytes);
    LS_TRY(find_last(automatic ? config->out : resume, path, bytes));
    if (automatic || path[0]) return LS_OK;
    LS_TRY(refuse_inner_folder("--resume ", resume));
    return ls_fail(LS_ERR_FORMAT, "--resume %s: no checkpoints/last.safetensors in this folder: a "
                   "run that ended before its first checkpoint is started anew by its command with "
                   "--resume auto --out %s", resume, resume);
}

/* A cosine without a length lasts to the end of the run, and that was fixed when the run began: so
 * the command that began it can be given again. */
static void fix_length(ls_schedule *wanted, const ls_schedule *stored)
{
    if (wanted->kind == LS_SCHEDULE_COSINE && wanted->steps == 0
        && stored->kind == LS_SCHEDULE_COSINE)
        wanted->steps = stored->steps;
}

ls_status ls_resume_config(ls_config *config, const ls_saved_run *saved, int world_size)
{
    const ls_option *table = ls_option_table();
    ls_config merged = saved->config, wanted = *config;
    ls_config_fill(&wanted, world_size);
    fix_length(&wanted.schedule, &saved->config.schedule);
    for (int i = 0; table[i].name; i++) {
        const ls_option *option = &table[i];
        char stored[LS_TEXT_BYTES], given[LS_TEXT_BYTES];
        if (!ls_config_is_given(config, option)) continue;
        ls_config_value(&saved->config, option, stored, sizeof stored);
        ls_config_value(&wanted, option, given, sizeof given);
        if (strcmp(stored, given) == 0) continue;
        if (option->change == LS_OPTION_BITS)
            return ls_fail(LS_ERR_ARGUMENT, "--%s %s: the run that continues has %s, and another "
                           "value would change its bits; leave the option out, or start a new "
                           "run from these weights with --init", option->name, given,
                           stored[0] ? stored : "none");
        LS_TRY(ls_config_set(&merged, option->name, given));
    }
    snprintf(merged.out, sizeof merged.out, "%s", config->out);
    snprintf(merged.resume, sizeof merged.resume, "%s", config->resume);
    *config = merged;
    return LS_OK;
}

/* SPDX-License-Identifier: MIT */
/* options.h -- a command line becomes an invocation: which command, its arguments, its options.
 *
 * GNU style: `--name value`, `--name=value`; options and arguments in any order; `--` ends options.
 * A name must be written in full. Options of the run are those of train/config.h's table, of which
 * a command takes all or a few; a command may add flags of its own, which win over the table's.
 *
 * Where a value comes from, the later wins: the table's default, the checkpoint that --resume
 * names, the environment (LOCKSTEP_P2P), the file that --config names, the command line.
 */
#ifndef LS_CLI_OPTIONS_H
#define LS_CLI_OPTIONS_H

#include <stdbool.h>
#include <stdio.h>

#include "status.h"
#include "train/config.h"

enum { LS_ARGUMENTS_MAX = 4, LS_FLAGS_MAX = 8, LS_GIVEN_MAX = 64, LS_DEFAULTS_MAX = 2 };

/* An option of one command that is no option of a run. */
typedef struct {
    const char *name;    /* "text"; NULL ends a list */
    const char *value;   /* placeholder in help; NULL: it takes no value */
    const char *help;
} ls_flag;

struct ls_invocation;

typedef struct ls_command {
    const char *name;            /* "train", "bench gemm" */
    const char *arguments;       /* "MODEL --data SPEC [option ...]", for the usage line */
    const char *summary;         /* for the list of commands */
    const char *about;           /* a paragraph of its help, ended by a newline */
    int arguments_min, arguments_max;
    bool takes_model;            /* the first argument is the configuration's model */
    bool takes_all;              /* every option of the table */
    const char *const *takes;    /* else these, NULL-terminated; NULL: none */
    ls_flag flag[LS_FLAGS_MAX];
    struct {
        const char *name, *otherwise; /* an option of the table, its default here, for help */
    } own_default[LS_DEFAULTS_MAX];   /* where that is not train's */
    /* Errors: any; *exit_code stays 0 unless the command ends in another way than a failure. */
    ls_status (*run)(const struct ls_invocation *invocation, int *exit_code);
} ls_command;

extern const ls_command ls_command_train, ls_command_eval, ls_command_predict, ls_command_show,
    ls_command_devices, ls_command_verify, ls_command_bench_allreduce, ls_command_bench_gemm,
    ls_command_bench_conv, ls_command_bench_step, ls_command_data_verify, ls_command_data_show;

/* All texts are borrowed from argv. */
typedef struct ls_invocation {
    const char *program;         /* how lockstep was called: "build/lockstep" */
    const ls_command *command;
    const char *argument[LS_ARGUMENTS_MAX];
    int argument_count;
    struct {
        const char *name;        /* of the table, without dashes */
        const char *text;        /* NULL: the flag form */
    } given[LS_GIVEN_MAX];       /* in the order of the command line */
    int given_count;
    const char *flag[LS_FLAGS_MAX]; /* by the command's flags: the value, "" if it takes none, or
                                       NULL if it was not given */
    const char *config_file;     /* --config, or NULL */
    bool help;                   /* --help, -h: nothing else was checked */
} ls_invocation;

/* Is this word of the command line --help, or -h? Pure. */
bool ls_asks_help(const char *word);

/* argv: what follows the command's name. Errors: ARGUMENT. */
LS_MUST_USE ls_status ls_invocation_init(ls_invocation *invocation, const char *program,
                                         const ls_command *command, int argc, char *const *argv);

/* Set in `config`, which holds defaults or a checkpoint's values: environment, --config, options,
 * MODEL. Errors: ARGUMENT. */
LS_MUST_USE ls_status ls_invocation_config(const ls_invocation *invocation, ls_config *config);

/* A flag's value as a whole number in low .. high; `otherwise` if it was not given. */
LS_MUST_USE ls_status ls_flag_count(const ls_invocation *invocation, int flag, int low, int high,
                                    int otherwise, int *out);

/* Does a flag say `other` in place of the `usual` word? Errors: ARGUMENT (it says neither). */
LS_MUST_USE ls_status ls_flag_choice(const ls_invocation *invocation, int flag, const char *usual,
                                     const char *other, bool *out);

/* `lockstep COMMAND --help`. */
void ls_print_help(FILE *out, const ls_command *command);

#endif

/* SPDX-License-Identifier: MIT */
/* options.c -- one pass over the words of the command line. See options.h.
 *
 * Nothing is interpreted here but names: what a value may be says the table
 * (train/config_table.c).
 */
#include "cli/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nearest.h"
#include "train/trainer.h"

enum { NAMES_MAX = 96, NAME_BYTES = 64, CONFIG_BYTES_MAX = 1 << 20 };

static bool has_name(const char *const *names, const char *name)
{
    for (; names && *names; names++) {
        if (strcmp(*names, name) == 0) return true;
    }
    return false;
}

/* Is `option` on this command's list? MODEL (group "") has no option of its own on the line. */
static bool takes(const ls_command *command, const ls_option *option)
{
    if (option->group[0] == '\0') return false;
    return command->takes_all || has_name(command->takes, option->name);
}

static int find_flag(const ls_command *command, const char *name)
{
    for (int i = 0; i < LS_FLAGS_MAX && command->flag[i].name; i++) {
        if (strcmp(command->flag[i].name, name) == 0) return i;
    }
    return -1;
}

/* -- words of the command line -------------------------------------------------------------- */

/* What other programs call an option. */
static const struct {
    const char *theirs, *ours;
} elsewhere[] = {
    { "batch", "global-batch" },  { "batch-size", "global-batch" }, { "learning-rate", "lr" },
    { "patience", "early-stop" }, { "gpus", "devices" },            { "workers", "readers" },
};

/* Ours for `name`, if it is among names[] (ended by NULL), else the nearest of these, or NULL. */
static const char *meant_option(const char *name, const char *const *names)
{
    for (size_t i = 0; i < sizeof elsewhere / sizeof elsewhere[0]; i++) {
        if (strcmp(name, elsewhere[i].theirs) == 0 && has_name(names, elsewhere[i].ours))
            return elsewhere[i].ours;
    }
    return ls_nearest_name(name, names);
}

/* No such option: the nearest of those that this command takes, or whose it is. */
static ls_status unknown_option(const ls_command *command, const char *name)
{
    const char *names[NAMES_MAX] = { "help", "config" };
    int count = 2;
    for (int i = 0; i < LS_FLAGS_MAX && command->flag[i].name; i++) {
        names[count++] = command->flag[i].name;
    }
    for (const ls_option *o = ls_option_table(); o->name && count < NAMES_MAX - 1; o++) {
        if (takes(command, o)) names[count++] = o->name;
    }
    names[count] = NULL;
    const ls_option *known = ls_option_find(name);
    if (known && known->group[0] != '\0') {
        return ls_fail(LS_ERR_ARGUMENT, "--%s is an option of train, not of %s; see lockstep %s "
                       "--help", name, command->name, command->name);
    }
    const char *nearest = meant_option(name, names);
    return ls_fail(LS_ERR_ARGUMENT, "unknown option --%.60s%s%s%s; see lockstep %s --help", name,
                   nearest ? "; did you mean --" : "", nearest ? nearest : "",
                   nearest ? "?" : "", command->name);
}

typedef struct {
    char *const *word;
    int count, next;
} word_list;

/* The value of an option: what follows '=', else the next word. */
static ls_status need_value(const char *name, const char *equals, const char *placeholder,
                            word_list *words, const char **out)
{
    if (equals) {
        *out = equals + 1;
    } else if (words->next < words->count) {
        *out = words->word[words->next++];
    } else {
        return ls_fail(LS_ERR_ARGUMENT, "--%s: nothing follows it, expected %s", name, placeholder);
    }
    return LS_OK;
}

static ls_status read_flag(ls_invocation *v, int index, const char *equals, word_list *words)
{
    const ls_flag *flag = &v->command->flag[index];
    if (flag->value) return need_value(flag->name, equals, flag->value, words, &v->flag[index]);
    if (equals) {
        return ls_fail(LS_ERR_ARGUMENT, "--%s takes no value, found '%.60s'", flag->name,
                       equals + 1);
    }
    v->flag[index] = "";
    return LS_OK;
}

/* An option of the table. One whose value is "yes|no" takes the next word only if it is one. */
static ls_status read_table_option(ls_invocation *v, const ls_option *option, const char *equals,
                                   word_list *words)
{
    if (v->given_count == LS_GIVEN_MAX) {
        return ls_fail(LS_ERR_ARGUMENT, "more than %d options", LS_GIVEN_MAX);
    }
    const char *text = NULL;
    const bool may_stand_alone = strcmp(option->value, "yes|no") == 0;
    const char *next = words->next < words->count ? words->word[words->next] : "";
    if (equals || !may_stand_alone || strcmp(next, "yes") == 0 || strcmp(next, "no") == 0) {
        LS_TRY(need_value(option->name, equals, option->value, words, &text));
    }
    v->given[v->given_count].name = option->name;
    v->given[v->given_count++].text = text;
    return LS_OK;
}

/* `word` is "--name" or "--name=value". */
static ls_status read_option(ls_invocation *v, const char *word, word_list *words)
{
    char name[NAME_BYTES];
    const char *equals = strchr(word, '=');
    const size_t bytes = equals ? (size_t)(equals - word) - 2 : strlen(word) - 2;
    snprintf(name, sizeof name, "%.*s", (int)(bytes < NAME_BYTES ? bytes : NAME_BYTES - 1),
             word + 2);
    const int flag = find_flag(v->command, name);
    if (flag >= 0) return read_flag(v, flag, equals, words);
    if (strcmp(name, "config") == 0 && v->command->takes_all) {
        return need_value(name, equals, "FILE", words, &v->config_file);
    }
    const ls_option *option = ls_option_find(name);
    if (!option || !takes(v->command, option)) return unknown_option(v->command, name);
    return read_table_option(v, option, equals, words);
}

static ls_status read_argument(ls_invocation *v, const char *word)
{
    if (v->argument_count == v->command->arguments_max) {
        return ls_fail(LS_ERR_ARGUMENT, "found '%.60s', expected no further argument: lockstep %s "
                       "%s", word, v->command->name, v->command->arguments);
    }
    v->argument[v->argument_count++] = word;
    return LS_OK;
}

bool ls_asks_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

ls_status ls_invocation_init(ls_invocation *v, const char *program, const ls_command *command,
                             int argc, char *const *argv)
{
    *v = (ls_invocation){ .program = program, .command = command };
    word_list words = { .word = argv, .count = argc };
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        v->help = v->help || ls_asks_help(argv[i]);
    }
    if (v->help) return LS_OK;
    bool options_ended = false;
    while (words.next < words.count) {
        const char *word = words.word[words.next++];
        if (!options_ended && strcmp(word, "--") == 0) {
            options_ended = true;
        } else if (!options_ended && strncmp(word, "--", 2) == 0) {
            LS_TRY(read_option(v, word, &words));
        } else if (!options_ended && word[0] == '-' && word[1] != '\0') {
            return ls_fail(LS_ERR_ARGUMENT, "found '%.60s', expected a long option such as --help",
                           word);
        } else {
            LS_TRY(read_argument(v, word));
        }
    }
    if (v->argument_count < command->arguments_min) {
        return ls_fail(LS_ERR_ARGUMENT, "%s needs more than that: lockstep %s %s", command->name,
                       command->name, command->arguments);
    }
    return LS_OK;
}

/* -- values --------------------------------------------------------------------------------- */

static ls_status read_config_file(const char *path, ls_config *config)
{
    FILE *file = fopen(path, "rb");
    char *text = calloc(CONFIG_BYTES_MAX + 1, 1);
    ls_status status = LS_OK;
    if (!text) {
        status = ls_fail(LS_ERR_MEMORY, "--config %s: no memory to read it", path);
        goto done;
    }
    const size_t bytes = file ? fread(text, 1, CONFIG_BYTES_MAX, file) : 0;
    if (!file || ferror(file)) {
        status = ls_fail(LS_ERR_ARGUMENT, "--config %s: %s", path, strerror(errno));
    } else if (bytes == CONFIG_BYTES_MAX || strlen(text) != bytes) {
        status = ls_fail(LS_ERR_ARGUMENT, "--config %s: not a file of \"name value\" lines", path);
    } else {
        status = ls_config_parse(config, path, text);
    }
done:
    free(text);
    if (file) fclose(file);
    return status;
}

/* LOCKSTEP_P2P is the option --p2p in the environment. */
static ls_status read_environment(ls_config *config)
{
    const char *p2p = getenv("LOCKSTEP_P2P");
    if (!p2p || p2p[0] == '\0') return LS_OK;
    if (strcmp(p2p, "auto") != 0 && strcmp(p2p, "on") != 0 && strcmp(p2p, "off") != 0) {
        return ls_fail(LS_ERR_ARGUMENT, "LOCKSTEP_P2P is '%.60s', expected auto, on or off", p2p);
    }
    return ls_config_set(config, "p2p", p2p);
}

ls_status ls_invocation_config(const ls_invocation *v, ls_config *config)
{
    LS_TRY(read_environment(config));
    if (v->config_file) LS_TRY(read_config_file(v->config_file, config));
    for (int i = 0; i < v->given_count; i++) {
        LS_TRY(ls_config_set(config, v->given[i].name, v->given[i].text));
    }
    if (v->command->takes_model && v->argument_count > 0) {
        LS_TRY(ls_config_set(config, "model", v->argument[0]));
    }
    return LS_OK;
}

ls_status ls_flag_count(const ls_invocation *v, int flag, int low, int high, int otherwise,
                        int *out)
{
    const char *text = v->flag[flag];
    *out = otherwise;
    if (!text) return LS_OK;
    char *end;
    errno = 0;
    const long n = strtol(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || n < low || n > high) {
        return ls_fail(LS_ERR_ARGUMENT, "--%s: found '%.60s', expected a whole number from %d to "
                       "%d", v->command->flag[flag].name, text, low, high);
    }
    *out = (int)n;
    return LS_OK;
}

ls_status ls_flag_choice(const ls_invocation *v, int flag, const char *usual, const char *other,
                         bool *out)
{
    const char *text = v->flag[flag] ? v->flag[flag] : usual;
    *out = strcmp(text, other) == 0;
    if (*out || strcmp(text, usual) == 0) return LS_OK;
    return ls_fail(LS_ERR_ARGUMENT, "--%s: found '%.60s', expected %s or %s",
                   v->command->flag[flag].name, text, usual, other);
}

/* -- help ----------------------------------------------------------------------------------- */

enum { HELP_COLUMN = 34, HELP_WIDTH = 100 };

/* Characters up to the next place where a line may end: a word, or all between parentheses. */
static size_t unbroken(const char *text)
{
    const char *end = *text == '(' ? strchr(text, ')') : NULL;
    return end ? (size_t)(end - text) + 1 : strcspn(text, " ");
}

/* `text`, which begins at `column`; its further lines begin at HELP_COLUMN. */
static void print_wrapped(FILE *out, int column, const char *text)
{
    while (*text) {
        const size_t word = unbroken(text), blanks = strspn(text + word, " ");
        fprintf(out, "%.*s", (int)word, text);
        column += (int)(word + blanks);
        text += word + blanks;
        if (!*text) break;
        if (column + (int)unbroken(text) <= HELP_WIDTH) {
            fprintf(out, "%*s", (int)blanks, "");
        } else {
            column = HELP_COLUMN;
            fprintf(out, "\n%*s", column, "");
        }
    }
    fputc('\n', out);
}

static void print_option(FILE *out, const char *name, const char *value, const char *help)
{
    const bool may_stand_alone = value && strcmp(value, "yes|no") == 0;
    const int n = fprintf(out, "  --%s%s%s%s", name, may_stand_alone ? "[=" : value ? " " : "",
                          value ? value : "", may_stand_alone ? "]" : "");
    if (n < HELP_COLUMN) fprintf(out, "%*s", HELP_COLUMN - n, "");
    else fprintf(out, "\n%*s", HELP_COLUMN, "");
    print_wrapped(out, HELP_COLUMN, help);
}

/* What an option is in this command when it is not given, in words; NULL: its value. */
static const char *default_words(const ls_command *command, const ls_option *option)
{
    for (int i = 0; i < LS_DEFAULTS_MAX && command->own_default[i].name; i++) {
        if (strcmp(command->own_default[i].name, option->name) == 0)
            return command->own_default[i].otherwise;
    }
    return option->otherwise;
}

static void print_table_option(FILE *out, const ls_command *command, const ls_option *option)
{
    ls_config config;
    char value[LS_TEXT_BYTES], help[LS_TEXT_BYTES * 2];
    ls_config_init(&config);
    ls_config_value(&config, option, value, sizeof value);
    const char *words = default_words(command, option);
    const char *otherwise = words ? words : value;
    snprintf(help, sizeof help, otherwise[0] ? "%s (default %s)" : "%s", option->help, otherwise);
    print_option(out, option->name, option->value, help);
}

void ls_print_help(FILE *out, const ls_command *command)
{
    fprintf(out, "usage: lockstep %s %s\n\n%s", command->name, command->arguments,
            command->about);
    const char *group = "";
    for (const ls_option *o = ls_option_table(); o->name; o++) {
        if (!takes(command, o) || find_flag(command, o->name) >= 0) continue;
        if (strcmp(group, o->group) != 0) fprintf(out, "\n%s:\n", o->group);
        group = o->group;
        print_table_option(out, command, o);
    }
    fprintf(out, "\nThis command:\n");
    for (int i = 0; i < LS_FLAGS_MAX && command->flag[i].name; i++) {
        print_option(out, command->flag[i].name, command->flag[i].value, command->flag[i].help);
    }
    if (command->takes_all) {
        print_option(out, "config", "FILE", "read \"name value\" lines first, as config.txt has");
    }
    print_option(out, "help", NULL, "print this");
}

/* SPDX-License-Identifier: MIT */
/* model_parse.c -- from the text of a model file to a list of layers, without shapes.
 *
 *     line  := [ NAME "=" ] OP argument* option* [ "from" NAME ]        ("#" starts a comment)
 *
 *     input   HxWxC | N | auto            conv  FILTERS KHxKW   relu pad= stride= bias=
 *     dense   UNITS | auto  relu bias=    maxpool KHxKW         pad= stride=
 *     flatten   relu   dropout RATE       loss  softmax-crossentropy | mse | auto
 *
 * Words are separated by blanks; "=" between a name and an op is a word of its own, "pad=same" is
 * one word. The text is copied once and cut in place: a word is a pointer into the copy with its
 * place in the original, so every message can say line and column. One table says what each op
 * accepts; a line is read by its op's arguments, then by options in any order.
 *
 * Without `from` a line reads the line before it. No op here has two inputs, so two lines that
 * read the same layer could never be joined again: the second is refused, and with it every layer
 * whose output nobody would use (n - 1 layers that read different earlier ones are a chain).
 */
#include "train/model_parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/json.h"
#include "nearest.h"

enum { WORDS_MAX = 32, SUGGESTION_BYTES = 96 };

typedef struct {
    char *text;            /* NUL-terminated, in the parser's copy */
    ls_model_place place;
} word;

typedef struct {
    const char *file;      /* what the user called the model, for messages */
    word word[WORDS_MAX];  /* of the current line */
    int count, next;       /* words; the next one to read */
    ls_model_place end;    /* just after the last word: where a missing one was expected */
    bool is_finished;      /* the loss has been read */
    ls_parsed_model *out;
} parser;

enum { TAKES_RELU = 1, TAKES_PAD = 2, TAKES_STRIDE = 4, TAKES_BIAS = 8 };

static const struct {
    const char *name;
    ls_op op;
    unsigned takes;
    const char *usage;
} op_table[] = {
    { "input", LS_OP_INPUT, 0, "input HxWxC | N | auto" },
    { "conv", LS_OP_CONV, TAKES_RELU | TAKES_PAD | TAKES_STRIDE | TAKES_BIAS,
      "conv FILTERS KHxKW [relu] [pad=valid|same] [stride=S|SHxSW] [bias=yes|no]" },
    { "dense", LS_OP_DENSE, TAKES_RELU | TAKES_BIAS, "dense UNITS|auto [relu] [bias=yes|no]" },
    { "maxpool", LS_OP_MAX_POOL, TAKES_PAD | TAKES_STRIDE,
      "maxpool KHxKW [stride=S|SHxSW] [pad=valid|same]" },
    { "flatten", LS_OP_FLATTEN, 0, "flatten" },
    { "relu", LS_OP_ACTIVATION, 0, "relu" },
    { "dropout", LS_OP_DROPOUT, 0, "dropout RATE" },
};
enum { OP_COUNT = sizeof op_table / sizeof op_table[0] };

static const char *const op_names[] = { "input", "conv",    "dense", "maxpool", "flatten",
                                        "relu",  "dropout", "loss",  NULL };
static const char *const loss_names[] = { "softmax-crossentropy", "mse", "auto", NULL };
static const char loss_usage[] = "loss softmax-crossentropy|mse|auto";

/* "; did you mean 'x'?", or "" if no name is near. */
static const char *suggestion(const char *text, const char *const *names,
                              char out[SUGGESTION_BYTES])
{
    const char *nearest = ls_nearest_name(text, names);
    out[0] = '\0';
    if (nearest) snprintf(out, SUGGESTION_BYTES, "; did you mean '%s'?", nearest);
    return out;
}

/* -- words ------------------------------------------------------------------------------------- */

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/* Cut the line [begin, end) of `copy` into words; a comment ends it. */
static ls_status split_line(parser *p, char *copy, size_t begin, size_t end, int line)
{
    p->count = p->next = 0;
    p->end = (ls_model_place){ .line = line, .column = 1, .begin = begin };
    size_t i = begin;
    for (;;) {
        while (i < end && is_blank(copy[i])) i++;
        if (i == end || copy[i] == '#') return LS_OK;
        const size_t first = i;
        const ls_model_place place = { .line = line, .column = (int)(first - begin) + 1,
                                       .begin = first };
        while (i < end && !is_blank(copy[i]) && copy[i] != '#') {
            const unsigned char c = (unsigned char)copy[i++];
            if (c < 0x20 || c == 0x7f) {
                return ls_model_fail(p->file, place, "found the control character 0x%02x; a model "
                                     "file is plain text", c);
            }
        }
        if (p->count == WORDS_MAX) {
            return ls_model_fail(p->file, place, "more than %d words in one line", WORDS_MAX);
        }
        word *w = &p->word[p->count++];
        w->text = copy + first;
        w->place = place;
        w->place.bytes = i - first;
        p->end = (ls_model_place){ .line = line, .column = (int)(i - begin) + 1, .begin = i };
        if (i < end && copy[i] == '#') end = i; /* the NUL below replaces the '#' */
        copy[i] = '\0';
        if (i < end) i++;
    }
}

static const word *next_word(parser *p) { return p->next < p->count ? &p->word[p->next++] : NULL; }

/* The next word, which `usage` says must be there. */
static ls_status need_word(parser *p, const char *what, const char *usage, const word **out)
{
    *out = next_word(p);
    if (*out) return LS_OK;
    return ls_model_fail(p->file, p->end, "found the end of the line, expected %s (%s)", what,
                         usage);
}

/* Read `part_count` numbers joined by 'x', the whole of `text`. */
static bool read_extents(const char *text, size_t *part, int part_count)
{
    for (int i = 0; i < part_count; i++) {
        if (i > 0 && *text++ != 'x') return false;
        if (!is_digit(*text)) return false;
        size_t n = 0;
        while (is_digit(*text)) {
            n = n * 10 + (size_t)(*text++ - '0');
            if (n > LS_MODEL_EXTENT_MAX) return false;
        }
        if (n == 0) return false;
        part[i] = n;
    }
    return *text == '\0';
}

/* As read_extents, of a word; `expected` describes the form: "a window such as 3x3". */
static ls_status need_extents(const parser *p, const word *w, const char *text, size_t *part,
                              int part_count, const char *expected)
{
    if (read_extents(text, part, part_count)) return LS_OK;
    return ls_model_fail(p->file, w->place, "found '%.60s', expected %s, each 1 to %zu", w->text,
                         expected, LS_MODEL_EXTENT_MAX);
}

/* The index of `text` among names[]; `text` is (part of) the word w. */
static ls_status need_choice(const parser *p, const word *w, const char *text,
                             const char *const *names, const char *usage, int *out)
{
    for (*out = 0; names[*out]; ++*out) {
        if (strcmp(text, names[*out]) == 0) return LS_OK;
    }
    char hint[SUGGESTION_BYTES];
    return ls_model_fail(p->file, w->place, "found '%.60s', expected %s%s", w->text, usage,
                         suggestion(text, names, hint));
}

/* -- arguments and options of an op ------------------------------------------------------------ */

static ls_status read_input(parser *p, ls_parsed_layer *x, const char *usage)
{
    const word *w;
    LS_TRY(need_word(p, "a size", usage, &w));
    x->size = w->place;
    ls_shape *out = &x->layer.out;
    size_t part[3];
    if (strcmp(w->text, "auto") == 0) {
        x->is_auto = true;
    } else if (strchr(w->text, 'x')) {
        LS_TRY(need_extents(p, w, w->text, part, 3, "HEIGHTxWIDTHxCHANNELS such as 32x32x3"));
        *out = (ls_shape){ .height = part[0], .width = part[1], .channels = part[2] };
    } else {
        LS_TRY(need_extents(p, w, w->text, part, 1, "HxWxC, a number, or auto"));
        *out = (ls_shape){ .height = 1, .width = 1, .channels = part[0] };
    }
    return LS_OK;
}

static ls_status read_window(parser *p, const char *usage, size_t window[2])
{
    const word *w;
    LS_TRY(need_word(p, "a window such as 3x3", usage, &w));
    return need_extents(p, w, w->text, window, 2, "a window HEIGHTxWIDTH such as 3x3");
}

static ls_status read_conv(parser *p, ls_parsed_layer *x, const char *usage)
{
    const word *w;
    size_t window[2];
    ls_conv_shape *conv = &x->layer.conv;
    LS_TRY(need_word(p, "the number of filters", usage, &w));
    x->size = w->place;
    LS_TRY(need_extents(p, w, w->text, &conv->filters, 1, "a number of filters"));
    LS_TRY(read_window(p, usage, window));
    conv->kernel_height = window[0];
    conv->kernel_width = window[1];
    conv->stride_height = conv->stride_width = 1;
    x->layer.has_bias = true;
    return LS_OK;
}

static ls_status read_max_pool(parser *p, ls_parsed_layer *x, const char *usage)
{
    size_t window[2];
    LS_TRY(read_window(p, usage, window));
    x->size = p->word[p->next - 1].place;
    ls_pool_shape *pool = &x->layer.pool;
    pool->window_height = pool->stride_height = window[0];
    pool->window_width = pool->stride_width = window[1];
    if (window[0] * window[1] > 256) {
        return ls_model_fail(p->file, x->size, "found a window of %zu places; a pooling window has "
                             "at most 256", window[0] * window[1]);
    }
    return LS_OK;
}

static ls_status read_dense(parser *p, ls_parsed_layer *x, const char *usage)
{
    const word *w;
    LS_TRY(need_word(p, "the number of units", usage, &w));
    x->size = w->place;
    x->layer.has_bias = true;
    x->is_auto = strcmp(w->text, "auto") == 0;
    if (x->is_auto) return LS_OK;
    return need_extents(p, w, w->text, &x->units, 1, "a number of units, or auto");
}

static ls_status read_dropout(parser *p, ls_parsed_layer *x, const char *usage)
{
    const word *w;
    LS_TRY(need_word(p, "a rate", usage, &w));
    x->size = w->place;
    char *end = w->text;
    const double rate = strtod(w->text, &end);
    const bool is_plain = strspn(w->text, "0123456789.eE+-") == strlen(w->text);
    if (!is_plain || end == w->text || *end != '\0' || !(rate >= 0 && rate < 1)) {
        return ls_model_fail(p->file, w->place, "found '%.60s', expected a rate with 0 <= rate < 1",
                             w->text);
    }
    x->layer.rate = rate == 0 ? 0.0 : rate; /* "-0" too */
    return LS_OK;
}

static ls_status read_stride(const parser *p, const word *w, const char *text, ls_parsed_layer *x)
{
    size_t stride[2];
    if (read_extents(text, stride, 1)) {
        stride[1] = stride[0];
    } else {
        LS_TRY(need_extents(p, w, text, stride, 2, "stride=S or stride=SHxSW"));
    }
    x->layer.conv.stride_height = x->layer.pool.stride_height = stride[0];
    x->layer.conv.stride_width = x->layer.pool.stride_width = stride[1];
    return LS_OK;
}

/* One option word: relu or key=value, if the op `takes` it; `given` collects what came before. */
static ls_status read_option(const parser *p, const word *w, ls_parsed_layer *x, unsigned takes,
                             const char *usage, unsigned *given)
{
    static const char *const pads[] = { "valid", "same", NULL };
    static const char *const answers[] = { "no", "yes", NULL };
    static const struct {
        const char *name;
        unsigned bit;
    } option[] = { { "relu", TAKES_RELU }, { "pad=", TAKES_PAD }, { "stride=", TAKES_STRIDE },
                   { "bias=", TAKES_BIAS } };
    const char *known[6] = { "from" };
    int known_count = 1, choice;
    char key[64];
    const char *equals = strchr(w->text, '=');
    snprintf(key, sizeof key, "%.*s", equals ? (int)(equals - w->text) + 1 : 63, w->text);
    unsigned bit = 0;
    for (size_t i = 0; i < sizeof option / sizeof option[0]; i++) {
        if (!(takes & option[i].bit)) continue;
        known[known_count++] = option[i].name;
        if (strcmp(key, option[i].name) == 0) bit = option[i].bit;
    }
    if (*given & bit) {
        return ls_model_fail(p->file, w->place, "found '%.60s', but this line has said %s before",
                             w->text, key);
    }
    *given |= bit;
    const char *value = equals ? equals + 1 : "";
    switch (bit) {
    case TAKES_RELU:
        x->layer.relu = true;
        return LS_OK;
    case TAKES_PAD:
        LS_TRY(need_choice(p, w, value, pads, "pad=valid or pad=same", &choice));
        x->pad_same = choice == 1;
        return LS_OK;
    case TAKES_STRIDE:
        return read_stride(p, w, value, x);
    case TAKES_BIAS:
        LS_TRY(need_choice(p, w, value, answers, "bias=yes or bias=no", &choice));
        x->layer.has_bias = choice == 1;
        return LS_OK;
    default: {
        char hint[SUGGESTION_BYTES];
        return ls_model_fail(p->file, w->place, "found '%.60s', expected the end of the line or an "
                             "option of: %s%s", w->text, usage, suggestion(key, known, hint));
    }
    }
}

/* -- names and connections ------------------------------------------------------------------- */

static bool is_name(const char *text)
{
    if (!is_letter(text[0]) || strlen(text) >= LS_NAME_BYTES) return false;
    for (; *text; text++) {
        const char c = *text;
        if (!is_letter(c) && !is_digit(c) && c != '_' && c != '-' && c != '.') return false;
    }
    return true;
}

static int find_layer(const ls_parsed_model *m, const char *name)
{
    for (int i = 0; i < m->layer_count; i++) {
        if (strcmp(m->layer[i].layer.name, name) == 0) return i;
    }
    return -1;
}

/* The layer that the rest of the line ("from NAME", or nothing) says is read. */
static ls_status read_from(parser *p, const word *from, const char *op, int *input)
{
    const ls_parsed_model *m = p->out;
    *input = m->layer_count - 1;
    if (!from) return LS_OK;
    const word *w;
    LS_TRY(need_word(p, "the name of a layer", "from NAME", &w));
    if (p->next < p->count) {
        return ls_model_fail(p->file, p->word[p->next].place, "found '%.60s', expected the end of "
                             "the line: %s has one input", p->word[p->next].text, op);
    }
    *input = find_layer(m, w->text);
    if (*input < 0) {
        const char *names[LS_MODEL_LAYERS_MAX + 1];
        int count = 0;
        for (; count < m->layer_count; count++) names[count] = m->layer[count].layer.name;
        names[count] = NULL;
        char hint[SUGGESTION_BYTES];
        return ls_model_fail(p->file, w->place, "no layer above is called '%.60s'%s", w->text,
                             suggestion(w->text, names, hint));
    }
    for (int i = 0; i < m->layer_count; i++) {
        if (m->layer[i].layer.input_count == 0 || m->layer[i].layer.input[0] != *input) continue;
        return ls_model_fail(p->file, w->place, "'%s' already feeds line %d; no op here has two "
                             "inputs, so the two branches could never be joined", w->text,
                             m->layer[i].layer.line);
    }
    return LS_OK;
}

/* Options, then "from". `x` is NULL for the loss, which has no options. */
static ls_status read_tail(parser *p, ls_parsed_layer *x, const char *op, unsigned takes,
                           const char *usage, int *input)
{
    const word *w;
    unsigned given = 0;
    while ((w = next_word(p)) && strcmp(w->text, "from") != 0) {
        LS_TRY(read_option(p, w, x, takes, usage, &given));
    }
    return read_from(p, w, op, input);
}

/* Give `x` the name that its line says, or its op and number: "conv2". */
static ls_status name_layer(const parser *p, ls_parsed_layer *x, const word *given,
                            const char *op)
{
    const ls_parsed_model *m = p->out;
    int number = 1;
    for (int i = 0; i < m->layer_count; i++) number += m->layer[i].layer.op == x->layer.op;
    if (given) {
        snprintf(x->layer.name, LS_NAME_BYTES, "%s", given->text);
    } else if (x->layer.op == LS_OP_INPUT) {
        snprintf(x->layer.name, LS_NAME_BYTES, "%s", op);
    } else {
        snprintf(x->layer.name, LS_NAME_BYTES, "%s%d", op, number);
    }
    const int other = find_layer(m, x->layer.name);
    if (other < 0) return LS_OK;
    return ls_model_fail(p->file, given ? given->place : x->op,
                         "the name '%s' already belongs to line %d", x->layer.name,
                         m->layer[other].layer.line);
}

/* -- lines ------------------------------------------------------------------------------------ */

static ls_status read_loss(parser *p)
{
    const word *w;
    int choice, input;
    LS_TRY(need_word(p, "the kind of loss", loss_usage, &w));
    LS_TRY(need_choice(p, w, w->text, loss_names, loss_usage, &choice));
    LS_TRY(read_tail(p, NULL, "loss", 0, loss_usage, &input));
    p->out->loss_kind = w->place;
    p->out->loss_is_auto = choice == 2;
    p->out->loss = choice == 1 ? LS_LOSS_MSE : LS_LOSS_SOFTMAX_CROSSENTROPY;
    p->is_finished = true;
    return LS_OK;
}

static ls_status read_arguments(parser *p, ls_parsed_layer *x, const char *usage)
{
    switch (x->layer.op) {
    case LS_OP_INPUT: return read_input(p, x, usage);
    case LS_OP_CONV: return read_conv(p, x, usage);
    case LS_OP_DENSE: return read_dense(p, x, usage);
    case LS_OP_MAX_POOL: return read_max_pool(p, x, usage);
    case LS_OP_DROPOUT: return read_dropout(p, x, usage);
    default: break;
    }
    return LS_OK;
}

/* Append the layer of op_table[row], whose op word is `op`. */
static ls_status read_layer(parser *p, const word *name, const word *op, int row)
{
    ls_parsed_model *m = p->out;
    if (m->layer_count == LS_MODEL_LAYERS_MAX) {
        return ls_model_fail(p->file, op->place, "more than %d layers", LS_MODEL_LAYERS_MAX);
    }
    ls_parsed_layer x = { .layer = { .op = op_table[row].op, .line = op->place.line,
                                     .ordinal = m->layer_count, .kernel = -1, .bias = -1, .gamma = -1,
                                     .beta = -1, .mean = -1, .variance = -1 },
                          .op = op->place };
    const char *usage = op_table[row].usage;
    LS_TRY(name_layer(p, &x, name, op->text));
    LS_TRY(read_arguments(p, &x, usage));
    int input;
    LS_TRY(read_tail(p, &x, op->text, op_table[row].takes, usage, &input));
    x.layer.input_count = input < 0 ? 0 : 1;
    x.layer.input[0] = input;
    m->layer[m->layer_count++] = x;
    return LS_OK;
}

static ls_status read_line(parser *p)
{
    const ls_parsed_model *m = p->out;
    const word *name = NULL;
    if (p->is_finished) {
        return ls_model_fail(p->file, p->word[0].place, "found '%.60s' after the loss, expected "
                             "the end of the file", p->word[0].text);
    }
    if (p->count >= 2 && strcmp(p->word[1].text, "=") == 0) {
        name = &p->word[0];
        p->next = 2;
        if (!is_name(name->text)) {
            return ls_model_fail(p->file, name->place, "found '%.60s', expected a name: a letter, "
                                 "then letters, digits, '_', '-', '.'; at most %d", name->text,
                                 LS_NAME_BYTES - 1);
        }
    }
    const word *op;
    LS_TRY(need_word(p, "an op", "NAME = OP ...", &op));
    const bool is_loss = strcmp(op->text, "loss") == 0;
    int row = 0;
    while (row < OP_COUNT && strcmp(op->text, op_table[row].name) != 0) row++;
    if (row == OP_COUNT && !is_loss) {
        char hint[SUGGESTION_BYTES];
        if (strchr(op->text, '=')) {
            return ls_model_fail(p->file, op->place, "found '%.60s', expected an op; a name is "
                                 "followed by ' = ', with blanks around it", op->text);
        }
        return ls_model_fail(p->file, op->place, "found '%.60s', expected an op: input, conv, "
                             "dense, maxpool, flatten, relu, dropout or loss%s", op->text,
                             suggestion(op->text, op_names, hint));
    }
    const bool is_input = !is_loss && op_table[row].op == LS_OP_INPUT;
    if (is_input != (m->layer_count == 0)) {
        return ls_model_fail(p->file, op->place, "found '%s', expected %s", op->text,
                             is_input ? "a layer: the input is the first line, and the only one"
                                      : "the input first: input HxWxC | N | auto");
    }
    return is_loss ? read_loss(p) : read_layer(p, name, op, row);
}

/* A checkpoint keeps the text, comments too, as JSON: bytes that are no UTF-8 would come back
 * changed, and the run could not be resumed. */
static ls_status check_utf8(const char *file, const char *text, size_t bytes)
{
    ls_model_place place = { .line = 1, .column = 1 };
    while (place.begin < bytes) {
        const unsigned char *p = (const unsigned char *)text + place.begin;
        const size_t count = ls_utf8_bytes_at(p, bytes - place.begin);
        if (count == 0) {
            return ls_model_fail(file, place, "found byte 0x%02x, which begins no UTF-8 character; "
                                 "a model file is UTF-8 text", *p);
        }
        place.column += (int)count;
        place.begin += count;
        if (*p == '\n') place = (ls_model_place){ place.line + 1, 1, place.begin, 0 };
    }
    return LS_OK;
}

ls_status ls_model_parse(const char *name, const char *text, ls_parsed_model *out)
{
    *out = (ls_parsed_model){ 0 };
    const size_t bytes = strlen(text);
    if (bytes > LS_MODEL_TEXT_BYTES_MAX) {
        return ls_fail(LS_ERR_ARGUMENT, "%s: %zu bytes; a model file has at most %d", name, bytes,
                       LS_MODEL_TEXT_BYTES_MAX);
    }
    LS_TRY(check_utf8(name, text, bytes));
    parser p = { .file = name, .out = out };
    char *copy = malloc(bytes + 1);
    out->layer = calloc(LS_MODEL_LAYERS_MAX, sizeof *out->layer);
    ls_status status = LS_OK;
    if (!copy || !out->layer) {
        status = ls_fail(LS_ERR_MEMORY, "%s: no memory for %zu bytes of model", name, bytes);
        goto done;
    }
    memcpy(copy, text, bytes + 1);
    int line = 1;
    size_t begin = strncmp(copy, "\xef\xbb\xbf", 3) == 0 ? 3 : 0; /* a UTF-8 byte order mark */
    for (; begin <= bytes && status == LS_OK; line++) {
        const size_t end = begin + strcspn(copy + begin, "\n");
        status = split_line(&p, copy, begin, end, line);
        if (status == LS_OK && p.count > 0) status = read_line(&p);
        begin = end + 1;
    }
    if (status == LS_OK && !p.is_finished) {
        const ls_model_place end = { .line = line - 1, .column = 1 };
        status = ls_model_fail(name, end, "found the end of the file, expected %s",
                               out->layer_count == 0 ? "input HxWxC | N | auto" : loss_usage);
    }
done:
    free(copy);
    return status;
}

void ls_parsed_model_free(ls_parsed_model *parsed)
{
    free(parsed->layer);
    *parsed = (ls_parsed_model){ 0 };
}

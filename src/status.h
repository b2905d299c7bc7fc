/* SPDX-License-Identifier: MIT */
/* status.h -- how every function of lockstep says that it failed, and why.
 *
 * A function that can fail returns an ls_status. Where the cause is known, once, it calls
 * ls_fail(code, "text with values"), which stores the text in the calling thread's record and
 * returns the code; callers add nothing but LS_TRY. One thread is one replica, so a record per
 * thread is a record per replica, and signatures stay clean.
 *
 * Thread rule: the record is thread-local; nothing here is shared.
 */
#ifndef LS_STATUS_H
#define LS_STATUS_H

#include <stddef.h>

typedef enum {
    LS_OK = 0,
    LS_ERR_ARGUMENT,   /* usage, model or configuration                              exit 2 */
    LS_ERR_FORMAT,     /* data or checkpoint: absent, malformed, out of range        exit 3 */
    LS_ERR_VERIFY,     /* a verification did not hold                                exit 4 */
    LS_ERR_DEVICE,     /* device, driver or link failed, or was used wrongly         exit 5 */
    LS_ERR_TIMEOUT,    /* a wait passed its deadline                                 exit 5 */
    LS_ERR_DIVERGED,   /* replicas disagree: weights, a contribution, a bucket       exit 5 */
    LS_ERR_MEMORY,     /* an allocation failed                                       exit 1 */
    LS_ERR_IO,         /* a file could not be written or read                        exit 1 */
    LS_ERR_NONFINITE,  /* a NaN or an infinity in the loss or the reduced gradient   exit 1 */
    LS_ERR_ABORTED     /* another rank failed first: never a cause by itself         exit 1 */
} ls_status;

#define LS_MUST_USE __attribute__((warn_unused_result))
#define LS_PRINTF(text, first) __attribute__((format(printf, text, first)))

enum { LS_MESSAGE_BYTES = 1536 };

/* Store `text` and where it was said in this thread's record. Returns `code`. */
#define ls_fail(...) ls_fail_at(__FILE__, __LINE__, __VA_ARGS__)
ls_status ls_fail_at(const char *file, int line, ls_status code, const char *format, ...)
    LS_PRINTF(4, 5);

/* Return from the calling function if `expr` failed. */
#define LS_TRY(expr)                                                                              \
    do {                                                                                          \
        ls_status ls_s_ = (expr);                                                                 \
        if (ls_s_ != LS_OK) return ls_s_;                                                         \
    } while (0)

/* The text of this thread's last failure ("" before the first), and the source line that said
 * it ("src/io/checkpoint.c:88"). Valid until this thread's next ls_fail. */
const char *ls_last_error(void);
const char *ls_last_error_place(void);

/* Make (code, text, place) this thread's record: how a rank's cause reaches the main thread. */
ls_status ls_fail_again(ls_status code, const char *text, const char *place);

/* Put `words` before the text of this thread's record; its place stays. Returns `code`. */
ls_status ls_fail_before(ls_status code, const char *words);

/* This thread's record, kept over a clean-up that may fail as well: the first cause is told. */
enum { LS_PLACE_BYTES = 256 };
typedef struct {
    char text[LS_MESSAGE_BYTES];
    char place[LS_PLACE_BYTES];
} ls_record;
void ls_record_keep(ls_record *out);
void ls_record_restore(const ls_record *record);

/* The exit code of a class of failure (the table above). Pure. */
int ls_exit_code(ls_status code);

/* The class's name, "FORMAT". Pure. */
const char *ls_status_name(ls_status code);

#endif

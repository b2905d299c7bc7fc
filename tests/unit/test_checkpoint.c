/* SPDX-License-Identifier: MIT */
/* test_checkpoint.c -- what is saved comes back; damage is named; a failed save harms nothing.
 *
 * The disk belongs to the test: saves go through calls that give out, accept only some bytes, or
 * end the process at a chosen byte.
 */
#include "support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crc32c.h"
#include "io/checkpoint.h"
#include "sha256.h"

/* -- a folder, files, tensors ---------------------------------------------------------------- */

static char folder[512], path[600];

static int make_folder(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/lockstep-test-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(folder)) return -1;
    snprintf(path, sizeof path, "%s/last.safetensors", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    ls_checkpoint_remove_stale(path);
    return rmdir(folder); /* fails if a test left something behind */
}

enum { FILE_BYTES_MAX = 1 << 17 };

typedef struct {
    unsigned char byte[FILE_BYTES_MAX];
    size_t count;
} file_bytes;

static void read_file(file_bytes *file)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    file->count = fread(file->byte, 1, sizeof file->byte, f);
    fclose(f);
}

static void write_file(const unsigned char *byte, size_t count)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(byte, 1, count, f), count);
    assert_int_equal(fclose(f), 0);
}

/* Change byte `at` of the file in place: rewriting it whole thousands of times would take long. */
static void write_byte(size_t at, unsigned char byte)
{
    const int fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
    close(fd);
}

static bool exists(const char *name) { return access(name, F_OK) == 0; }

static float kernel[6] = { 1.5f, -0.0f, 3e-41f, 4, 5, 6 };
static double sums[2] = { 0.1, -1e300 };
static int64_t step[1] = { -7 };
static uint32_t words[3] = { 1, 0xFFFFFFFFu, 3 };

/* Narrow before wide, so that saving has something to reorder. */
static const ls_saved_tensor tensors[] = {
    { "weights/conv1/kernel", LS_DTYPE_F32, 2, { 2, 3 }, kernel },
    { "state/sums", LS_DTYPE_F64, 1, { 2 }, sums },
    { "state/words", LS_DTYPE_U32, 1, { 3 }, words },
    { "state/step", LS_DTYPE_I64, 0, { 0 }, step },
    { "weights/none", LS_DTYPE_F32, 2, { 0, 5 }, NULL },
};
enum { TENSOR_COUNT = sizeof tensors / sizeof tensors[0] };

static const ls_saved_text texts[] = {
    { "config", "lr 0.1\n# \"quoted\" \\ \xC3\xA9\n" },
    { "model", "" },
};

static ls_status save(void) { return ls_checkpoint_save(path, tensors, TENSOR_COUNT, texts, 2); }

static ls_checkpoint *open_file(void)
{
    ls_checkpoint *c = NULL;
    if (ls_checkpoint_open(path, &c) != LS_OK) fail_msg("%s", ls_last_error());
    return c;
}

/* Opening fails with FORMAT, and the message holds `part`. */
static void assert_refused(const char *part)
{
    ls_checkpoint *c = NULL;
    const ls_status status = ls_checkpoint_open(path, &c);
    ls_checkpoint_close(c);
    if (status != LS_ERR_FORMAT || !strstr(ls_last_error(), part)) {
        fail_msg("expected FORMAT with '%s', got %s: %s", part, ls_status_name(status),
                 status ? ls_last_error() : "");
    }
}

/* -- round trip ------------------------------------------------------------------------------ */

static void test_what_is_saved_comes_back(void **state)
{
    (void)state;
    assert_int_equal(save(), LS_OK);
    ls_checkpoint *c = open_file();
    assert_int_equal(ls_checkpoint_tensor_count(c), TENSOR_COUNT);
    for (int i = 0; i < TENSOR_COUNT; i++) {
        const ls_saved_tensor *t = ls_checkpoint_tensor(c, tensors[i].name);
        assert_non_null(t);
        size_t bytes = ls_dtype_bytes(t->dtype);
        assert_int_equal(t->dtype, tensors[i].dtype);
        assert_int_equal(t->dims, tensors[i].dims);
        for (int d = 0; d < t->dims; d++) {
            assert_int_equal(t->shape[d], tensors[i].shape[d]);
            bytes *= t->shape[d];
        }
        assert_int_equal((uintptr_t)t->data % ls_dtype_bytes(t->dtype), 0);
        if (bytes > 0) assert_memory_equal(t->data, tensors[i].data, bytes);
    }
    assert_string_equal(ls_checkpoint_text(c, "config"), texts[0].text);
    assert_string_equal(ls_checkpoint_text(c, "model"), "");
    assert_null(ls_checkpoint_text(c, "conf"));
    assert_null(ls_checkpoint_tensor(c, "weights"));
    ls_checkpoint_close(c);
}

static void test_wide_elements_come_first_and_else_the_given_order_is_kept(void **state)
{
    (void)state;
    static const int order[TENSOR_COUNT] = { 1, 3, 0, 2, 4 };
    assert_int_equal(save(), LS_OK);
    ls_checkpoint *c = open_file();
    for (int i = 0; i < TENSOR_COUNT; i++) {
        assert_string_equal(ls_checkpoint_tensor_at(c, i)->name, tensors[order[i]].name);
    }
    ls_checkpoint_close(c);
}

static void test_equal_contents_make_equal_files(void **state)
{
    (void)state;
    static file_bytes first, second;
    assert_int_equal(save(), LS_OK);
    read_file(&first);
    assert_int_equal(save(), LS_OK);
    read_file(&second);
    assert_int_equal(first.count, second.count);
    assert_memory_equal(first.byte, second.byte, first.count);
}

static void test_a_checkpoint_may_hold_nothing(void **state)
{
    (void)state;
    assert_int_equal(ls_checkpoint_save(path, NULL, 0, NULL, 0), LS_OK);
    ls_checkpoint *c = open_file();
    char hex[65];
    assert_int_equal(ls_checkpoint_tensor_count(c), 0);
    ls_checkpoint_group_sha256(c, "weights/", hex);
    assert_string_equal(hex, "");
    ls_checkpoint_close(c);
}

static void test_data_begin_on_a_multiple_of_64_and_fill_the_file(void **state)
{
    (void)state;
    static file_bytes file;
    assert_int_equal(save(), LS_OK);
    read_file(&file);
    uint64_t length;
    memcpy(&length, file.byte, sizeof length);
    assert_int_equal((length + 8) % 64, 0);
    assert_int_equal(file.count, 8 + length + sizeof kernel + sizeof sums + sizeof step +
                                     sizeof words);
}

static void test_what_could_not_be_opened_is_not_saved(void **state)
{
    (void)state;
    const ls_saved_tensor twice[] = { tensors[0], tensors[0] };
    ls_saved_tensor blank = tensors[0];
    snprintf(blank.name, sizeof blank.name, "a b");
    const ls_saved_text same[] = { { "k", "1" }, { "k", "2" } }, check = { "crc32c/x", "0" };
    assert_int_equal(ls_checkpoint_save(path, twice, 2, NULL, 0), LS_ERR_FORMAT);
    assert_int_equal(ls_checkpoint_save(path, &blank, 1, NULL, 0), LS_ERR_FORMAT);
    assert_int_equal(ls_checkpoint_save(path, tensors, 1, same, 2), LS_ERR_FORMAT);
    assert_int_equal(ls_checkpoint_save(path, tensors, 1, &check, 1), LS_ERR_FORMAT);
    assert_false(exists(path));
}

static void test_text_that_is_no_utf8_is_saved_with_a_mark_in_its_place(void **state)
{
    (void)state;
    const ls_saved_text text = { "data", "csv:\xFF.csv" };
    assert_int_equal(ls_checkpoint_save(path, NULL, 0, &text, 1), LS_OK);
    ls_checkpoint *c = open_file();
    assert_string_equal(ls_checkpoint_text(c, "data"), "csv:\xEF\xBF\xBD.csv");
    ls_checkpoint_close(c);
}

/* -- digests --------------------------------------------------------------------------------- */

static void test_a_group_has_the_digest_of_its_tensors_by_name(void **state)
{
    (void)state;
    char memory[65], reversed[65], file[65], group[65];
    ls_saved_tensor backwards[TENSOR_COUNT];
    for (int i = 0; i < TENSOR_COUNT; i++) backwards[i] = tensors[TENSOR_COUNT - 1 - i];
    ls_tensors_sha256(tensors, TENSOR_COUNT, "", memory);
    ls_tensors_sha256(backwards, TENSOR_COUNT, "", reversed);
    ls_tensors_sha256(tensors, TENSOR_COUNT, "weights/", group);
    assert_string_equal(memory, reversed);
    assert_string_not_equal(memory, group);
    assert_int_equal(save(), LS_OK);
    ls_checkpoint *c = open_file();
    ls_checkpoint_group_sha256(c, "", file);
    assert_string_equal(file, memory);
    ls_checkpoint_group_sha256(c, "weights/", file);
    assert_string_equal(file, group);
    ls_checkpoint_group_sha256(c, "optimizer/", file);
    assert_string_equal(file, "");
    ls_checkpoint_close(c);
}

/* The bytes that checkpoint.h promises: so that anybody can compute the digest. */
static void test_a_digest_covers_name_dtype_shape_and_bytes(void **state)
{
    (void)state;
    char got[65], want[65];
    ls_sha256 sha;
    ls_sha256_init(&sha);
    ls_sha256_update(&sha, "weights/conv1/kernel\0F32\0\2\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0"
                           "\3\0\0\0\0\0\0\0", 21 + 4 + 24);
    ls_sha256_update(&sha, kernel, sizeof kernel);
    ls_sha256_final_hex(&sha, want);
    ls_tensors_sha256(tensors, TENSOR_COUNT, "weights/c", got);
    assert_string_equal(got, want);
    ls_saved_tensor other = tensors[0];
    other.shape[0] = 3;
    other.shape[1] = 2;
    ls_tensors_sha256(&other, 1, "", got);
    assert_string_not_equal(got, want);
    float minus[6];
    memcpy(minus, kernel, sizeof minus);
    minus[1] = 0.0f; /* equal as a number, other bits */
    other = tensors[0];
    other.data = minus;
    ls_tensors_sha256(&other, 1, "", got);
    assert_string_not_equal(got, want);
}

/* -- damage ---------------------------------------------------------------------------------- */

static void test_a_file_cut_at_any_byte_is_refused(void **state)
{
    (void)state;
    static file_bytes file;
    assert_int_equal(save(), LS_OK);
    read_file(&file);
    for (size_t count = file.count; count-- > 0;) {
        assert_int_equal(truncate(path, (off_t)count), 0);
        assert_refused(count < 8 ? "too short" : "cut off");
    }
}

static void test_added_bytes_are_refused(void **state)
{
    (void)state;
    static file_bytes file;
    assert_int_equal(save(), LS_OK);
    read_file(&file);
    file.byte[file.count] = 0;
    write_file(file.byte, file.count + 1);
    assert_refused("trailing bytes");
}

static void test_any_flipped_bit_is_refused(void **state)
{
    (void)state;
    static file_bytes file;
    assert_int_equal(save(), LS_OK);
    read_file(&file);
    for (size_t bit = 0; bit < 8 * file.count; bit++) {
        const unsigned char right = file.byte[bit / 8];
        ls_checkpoint *c = NULL;
        write_byte(bit / 8, (unsigned char)(right ^ 1u << bit % 8));
        if (ls_checkpoint_open(path, &c) != LS_ERR_FORMAT) fail_msg("bit %zu went unseen", bit);
        write_byte(bit / 8, right);
    }
    ls_checkpoint_close(open_file());
}

static void test_damage_is_named_by_its_section(void **state)
{
    (void)state;
    static file_bytes file;
    assert_int_equal(save(), LS_OK);
    read_file(&file);
    uint64_t length;
    memcpy(&length, file.byte, sizeof length);
    const size_t data = 8 + (size_t)length;
    const struct {
        size_t byte;
        const char *part;
    } damage[] = {
        { 0, "header: damaged" },  /* the length, and with it what the CRC covers */
        { 7, "header: byte 0" },   /* a length beyond the file */
        { 100, "header: damaged: its CRC-32C is" },
        { data - 1, "header: damaged" }, /* padding */
        { data, "tensor state/sums: damaged" },
        { data + 16, "tensor state/step: damaged" },
        { data + 24, "tensor weights/conv1/kernel: damaged" },
        { file.count - 1, "tensor state/words: damaged" },
    };
    for (size_t i = 0; i < sizeof damage / sizeof damage[0]; i++) {
        const unsigned char right = file.byte[damage[i].byte];
        write_byte(damage[i].byte, right ^ 4);
        assert_refused(damage[i].part);
        write_byte(damage[i].byte, right);
    }
}

static void test_what_is_no_checkpoint_is_refused(void **state)
{
    (void)state;
    assert_refused("No such file");
    write_file((const unsigned char *)"", 0);
    assert_refused("0 bytes, too short");
    write_file((const unsigned char *)"PK\3\4 this is a zip file, so to say", 33);
    assert_refused("no checkpoint");
    unlink(path);
    assert_int_equal(mkdir(path, 0777), 0);
    assert_refused("not a regular file");
    rmdir(path);
    assert_int_equal(mkfifo(path, 0666), 0);
    assert_refused("not a regular file"); /* and does not wait for a writer */
}

/* -- files made to harm ---------------------------------------------------------------------- */

/* What the crafted header is padded to, with its length field. */
static int crafted_alignment = 64;

/* Write a checkpoint with the header
 * {"__metadata__":{"crc32c/header":"<right>"<metadata>}<crafted>}  and `data_bytes` zeros. */
static void write_crafted(const char *metadata, const char *crafted, size_t data_bytes)
{
    static char json[8192];
    static unsigned char zeros[64];
    static const char mark[] = "\"crc32c/header\":\"";
    int count = snprintf(json, sizeof json, "{\"__metadata__\":{%s00000000\"%s}%s}", mark,
                         metadata, crafted);
    while ((count + 8) % crafted_alignment != 0) json[count++] = ' ';
    char digits[9];
    snprintf(digits, sizeof digits, "%08" PRIx32, ls_crc32c(0, json, (size_t)count));
    memcpy(strstr(json, mark) + strlen(mark), digits, 8);
    const uint64_t length = (uint64_t)count;
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fwrite(&length, 8, 1, f);
    fwrite(json, 1, (size_t)count, f);
    fwrite(zeros, 1, data_bytes, f);
    assert_int_equal(fclose(f), 0);
}

/* CRC-32C of 8 and 4 zero bytes. */
#define CRC8(name) ",\"crc32c/" name "\":\"8c28b28a\""
#define CRC4(name) ",\"crc32c/" name "\":\"48674bc7\""

/* A tensor's entry: dtype, shape and offsets as JSON. */
#define TENSOR(name, dtype, shape, offsets) \
    ",\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static void test_crafted_headers_that_are_right_are_opened(void **state)
{
    (void)state;
    write_crafted(CRC8("a") CRC4("b"),
                  TENSOR("a", "F32", "[2]", "[0,8]")
                  ",\"b\":{\"data_offsets\":[8,12],\"shape\":[],\"dtype\":\"U32\"}", 12);
    ls_checkpoint *c = open_file();
    assert_int_equal(ls_checkpoint_tensor_count(c), 2);
    ls_checkpoint_close(c);
}

static void test_a_header_that_misaligns_the_data_is_refused(void **state)
{
    (void)state;
    crafted_alignment = 60;
    write_crafted(CRC8("a"), TENSOR("a", "F32", "[2]", "[0,8]"), 8);
    crafted_alignment = 64;
    assert_refused("header: byte 0");
}

static void test_crafted_headers_that_lie_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *metadata, *tensors;
        size_t data_bytes;
        const char *part;
    } lie[] = {
        { CRC8("a"), TENSOR("a", "F16", "[4]", "[0,8]"), 8, "dtype" },
        { CRC8("a"), TENSOR("a", "F32", "[3]", "[0,8]"), 8,
          "tensor a: data_offsets 0 to 8, but dtype and shape need 12 bytes" },
        { CRC8("a"), TENSOR("a", "F32", "[2]", "[8,0]"), 8,
          "tensor a: begins at byte 8 of the data, but what is before it ends at 0: a hole" },
        { CRC8("a"), TENSOR("a", "F32", "[2]", "[0,8]"), 4, "cut off" },
        { CRC8("a"), TENSOR("a", "F32", "[2]", "[0,8]"), 12,
          "trailing bytes" },
        { CRC8("a"), TENSOR("a", "F32", "[2]", "[4,12]"), 12, "a hole" },
        { CRC8("a") CRC8("b"), TENSOR("a", "F32", "[2]", "[0,8]")
          TENSOR("b", "F32", "[2]", "[4,12]"), 12, "an overlap" },
        { CRC8("a") CRC8("a"), TENSOR("a", "F32", "[2]", "[0,8]"), 8,
          "crc32c/a is there twice" },
        { CRC8("a"), TENSOR("a", "F32", "[2]", "[0,8]")
          TENSOR("a", "F32", "[2]", "[8,16]"), 16,
          "tensor a: is there twice" },
        { "", TENSOR("a", "F32", "[2]", "[0,8]"), 8,
          "no metadata crc32c/a" },
        { CRC8("a") CRC8("c"), TENSOR("a", "F32", "[2]", "[0,8]"), 8,
          "2 checks for 1 tensors" },
        { CRC4("b") CRC8("a"), TENSOR("b", "F32", "[1]", "[0,4]")
          TENSOR("a", "F64", "[1]", "[4,12]"), 12, "not aligned" },
        { CRC8("a"), ",\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],"
          "\"data_offsets\":[0,0]}", 0, "need 18446744073709551615 bytes" },
        { CRC8("a"), TENSOR("a", "F32", "[1,1,1,1,2]", "[0,8]"), 8,
          "fewer numbers" },
        { CRC8("a"), TENSOR("a", "F32", "[-2]", "[0,8]"), 8, "number" },
        { CRC8("a"), ",\"a\":{\"dtype\":\"F32\",\"shape\":[2]}", 8, "data_offsets" },
        { CRC8("a"), TENSOR("a", "F32", "[2]", "[0]"), 8, "two" },
        { CRC8("a"), ",\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"shape\":[2],"
          "\"data_offsets\":[0,8]}", 8, "once each" },
        { CRC8("a"), ",\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"x\":1}", 8,
          "once each" },
        { CRC8("a"), TENSOR("", "F32", "[2]", "[0,8]"), 8, "a name" },
        { CRC8("a"), TENSOR("\\u001b[2J", "F32", "[2]", "[0,8]"), 8,
          "a name" },
        { ",\"k\":1", "", 0, "a string" },
        { "", ",\"__metadata__\":{}", 0, "__metadata__ once" },
        { "", ",", 0, "a string" },
        { "", "} {", 0, "nothing more" },
    };
    for (size_t i = 0; i < sizeof lie / sizeof lie[0]; i++) {
        write_crafted(lie[i].metadata, lie[i].tensors, lie[i].data_bytes);
        assert_refused(lie[i].part);
    }
}

static void test_a_name_longer_than_the_format_allows_is_refused(void **state)
{
    (void)state;
    char long_name[LS_TENSOR_NAME_BYTES + 1], tensor[512];
    memset(long_name, 'n', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    snprintf(tensor, sizeof tensor, TENSOR("%s", "F32", "[]", "[0,4]"),
             long_name);
    write_crafted("", tensor, 4);
    assert_refused("a name of 1 to 127 bytes");
}

static void test_a_header_longer_than_the_file_or_the_limit_is_refused(void **state)
{
    (void)state;
    unsigned char start[64] = { 0 };
    uint64_t length = UINT64_MAX - 7; /* 8 + length would wrap to 0 */
    memcpy(start, &length, sizeof length);
    write_file(start, sizeof start);
    assert_refused("header: byte 0");
    length = 120;
    memcpy(start, &length, sizeof length);
    write_file(start, sizeof start);
    assert_refused("header: byte 0");
}

/* A file as the Python package writes it, without our checks. */
static void test_a_foreign_safetensors_file_is_refused_as_such(void **state)
{
    (void)state;
    static const char json[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}";
    unsigned char file[8 + 64 + 4] = { 64 }; /* it aligns to 8 bytes only */
    memset(file + 8, ' ', 64);
    memcpy(file + 8, json, sizeof json - 1);
    write_file(file, sizeof file);
    assert_refused("not written by lockstep");
}

/* -- a disk that gives out ------------------------------------------------------------------- */

/* What the faulty disk does; set by a test before it saves. */
static struct {
    size_t room;       /* bytes that it still takes */
    size_t most;       /* bytes per call */
    int when_full;     /* errno; -1: the process ends */
    int interrupts;    /* calls that fail with EINTR first */
    bool fails_sync, fails_rename, ends_at_rename;
} disk;

static ssize_t faulty_write(int fd, const void *data, size_t bytes)
{
    if (disk.interrupts > 0) {
        disk.interrupts--;
        errno = EINTR;
        return -1;
    }
    if (disk.room == 0) {
        if (disk.when_full < 0) _exit(9);
        errno = disk.when_full;
        return -1;
    }
    if (bytes > disk.most) bytes = disk.most;
    if (bytes > disk.room) bytes = disk.room;
    disk.room -= bytes;
    return write(fd, data, bytes);
}

static int faulty_sync(int fd)
{
    (void)fd;
    errno = EIO;
    return disk.fails_sync ? -1 : 0;
}

static int faulty_rename(const char *from, const char *to)
{
    if (disk.ends_at_rename) _exit(9);
    errno = EACCES;
    return disk.fails_rename ? -1 : rename(from, to);
}

static const ls_file_calls faulty = { faulty_write, faulty_sync, faulty_rename };

static float large[5000]; /* 20 KB: several boundaries of 4 KiB */
static const ls_saved_tensor large_tensor = { "weights/w", LS_DTYPE_F32, 1, { 5000 }, large };

static void reset_disk(void)
{
    memset(&disk, 0, sizeof disk);
    disk.room = disk.most = (size_t)1 << 30;
    disk.when_full = ENOSPC;
}

static ls_status save_faulty(void)
{
    return ls_checkpoint_save_through(&faulty, path, &large_tensor, 1, NULL, 0);
}

/* The same in a process that may end on the way; returns its exit code. */
static int save_in_child(void)
{
    const pid_t child = fork();
    if (child == 0) _exit(save_faulty() == LS_OK ? 0 : 1);
    int status = -1;
    assert_true(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* Save `large` filled with `value`, the checkpoint that must survive; returns its bytes. */
static void save_previous(float value, file_bytes *previous)
{
    for (size_t i = 0; i < 5000; i++) large[i] = value + (float)i;
    reset_disk();
    assert_int_equal(save_faulty(), LS_OK);
    read_file(previous);
    for (size_t i = 0; i < 5000; i++) large[i] = -large[i];
}

static void assert_previous_is_whole(const file_bytes *previous)
{
    static file_bytes now;
    read_file(&now);
    assert_int_equal(now.count, previous->count);
    assert_memory_equal(now.byte, previous->byte, now.count);
    ls_checkpoint_close(open_file());
}

static void test_short_writes_and_interruptions_are_continued(void **state)
{
    (void)state;
    static file_bytes whole, pieces;
    save_previous(1, &whole);
    for (size_t i = 0; i < 5000; i++) large[i] = -large[i];
    for (size_t most = 1; most < 5000; most = most * 3 + 1) {
        reset_disk();
        disk.most = most;
        disk.interrupts = 3;
        assert_int_equal(save_faulty(), LS_OK);
        read_file(&pieces);
        assert_int_equal(pieces.count, whole.count);
        assert_memory_equal(pieces.byte, whole.byte, whole.count);
    }
}

static void test_a_disk_that_fills_up_anywhere_leaves_the_previous_file(void **state)
{
    (void)state;
    static file_bytes previous;
    save_previous(2, &previous);
    size_t refusals = 0;
    for (size_t room = 0; room < previous.count; room += room == 0 ? 1 : room == 1 ? 4095 : 4096) {
        for (int cause = 0; cause < 3; cause++) {
            static const int causes[] = { ENOSPC, EDQUOT, EIO };
            reset_disk();
            disk.room = room;
            disk.when_full = causes[cause];
            assert_int_equal(save_faulty(), LS_ERR_IO);
            assert_non_null(strstr(ls_last_error(), strerror(causes[cause])));
            assert_previous_is_whole(&previous);
            assert_int_equal(ls_checkpoint_remove_stale(path), 0); /* it cleaned up itself */
            refusals++;
        }
    }
    assert_true(refusals >= 3 * 6);
}

static void test_failing_sync_and_rename_leave_the_previous_file(void **state)
{
    (void)state;
    static file_bytes previous;
    save_previous(3, &previous);
    disk.fails_sync = true;
    assert_int_equal(save_faulty(), LS_ERR_IO);
    assert_previous_is_whole(&previous);
    disk.fails_sync = false;
    disk.fails_rename = true;
    assert_int_equal(save_faulty(), LS_ERR_IO);
    assert_non_null(strstr(ls_last_error(), "renamed"));
    assert_previous_is_whole(&previous);
    assert_int_equal(ls_checkpoint_remove_stale(path), 0);
}

static void test_a_kill_at_any_moment_leaves_the_previous_file_and_a_stale_one(void **state)
{
    (void)state;
    static file_bytes previous;
    save_previous(4, &previous);
    for (size_t room = 0; room < previous.count; room += 4096) {
        reset_disk();
        disk.room = room;
        disk.when_full = -1;
        assert_int_equal(save_in_child(), 9);
        assert_previous_is_whole(&previous);
        assert_int_equal(ls_checkpoint_remove_stale(path), 1);
    }
    reset_disk();
    disk.ends_at_rename = true; /* all is written and synced, but not renamed */
    assert_int_equal(save_in_child(), 9);
    assert_previous_is_whole(&previous);
    assert_int_equal(ls_checkpoint_remove_stale(path), 1);
    assert_int_equal(ls_checkpoint_remove_stale(path), 0);
}

/* The system's own limit on a file's length, through the system's own calls. */
static void test_a_real_short_write_leaves_the_previous_file(void **state)
{
    (void)state;
    static file_bytes previous;
    save_previous(5, &previous);
    const pid_t child = fork();
    if (child == 0) {
        const struct rlimit limit = { 10000, 10000 };
        signal(SIGXFSZ, SIG_IGN); /* write then fails with EFBIG */
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(2);
        const ls_status status = ls_checkpoint_save(path, &large_tensor, 1, NULL, 0);
        _exit(status == LS_ERR_IO ? 0 : 1);
    }
    int status = -1;
    assert_true(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_previous_is_whole(&previous);
    assert_int_equal(ls_checkpoint_remove_stale(path), 0);
}

static void test_a_folder_that_is_not_there_is_an_io_error(void **state)
{
    (void)state;
    char absent[700];
    snprintf(absent, sizeof absent, "%s/no/such.safetensors", folder);
    assert_int_equal(ls_checkpoint_save(absent, tensors, TENSOR_COUNT, texts, 2), LS_ERR_IO);
    assert_non_null(strstr(ls_last_error(), "No such file"));
    assert_int_equal(ls_checkpoint_remove_stale(absent), 0);
}

static void test_only_temporary_files_of_this_path_are_stale(void **state)
{
    (void)state;
    static const char *const name[] = { "last.safetensors.tmp-12", "last.safetensors.tmp-",
                                        "last.safetensors.tmp-1x", "best.safetensors.tmp-12",
                                        "last.safetensors.bak" };
    char file[700];
    for (int i = 0; i < 5; i++) {
        snprintf(file, sizeof file, "%s/%s", folder, name[i]);
        fclose(fopen(file, "w"));
    }
    assert_int_equal(ls_checkpoint_remove_stale(path), 1);
    for (int i = 0; i < 5; i++) {
        snprintf(file, sizeof file, "%s/%s", folder, name[i]);
        assert_int_equal(exists(file), i > 0);
        unlink(file);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_what_is_saved_comes_back),
        TEST(test_wide_elements_come_first_and_else_the_given_order_is_kept),
        TEST(test_equal_contents_make_equal_files),
        TEST(test_a_checkpoint_may_hold_nothing),
        TEST(test_data_begin_on_a_multiple_of_64_and_fill_the_file),
        TEST(test_what_could_not_be_opened_is_not_saved),
        TEST(test_text_that_is_no_utf8_is_saved_with_a_mark_in_its_place),
        TEST(test_a_group_has_the_digest_of_its_tensors_by_name),
        TEST(test_a_digest_covers_name_dtype_shape_and_bytes),
        TEST(test_a_file_cut_at_any_byte_is_refused),
        TEST(test_added_bytes_are_refused),
        TEST(test_any_flipped_bit_is_refused),
        TEST(test_damage_is_named_by_its_section),
        TEST(test_what_is_no_checkpoint_is_refused),
        TEST(test_crafted_headers_that_are_right_are_opened),
        TEST(test_a_header_that_misaligns_the_data_is_refused),
        TEST(test_crafted_headers_that_lie_are_refused),
        TEST(test_a_name_longer_than_the_format_allows_is_refused),
        TEST(test_a_header_longer_than_the_file_or_the_limit_is_refused),
        TEST(test_a_foreign_safetensors_file_is_refused_as_such),
        TEST(test_short_writes_and_interruptions_are_continued),
        TEST(test_a_disk_that_fills_up_anywhere_leaves_the_previous_file),
        TEST(test_failing_sync_and_rename_leave_the_previous_file),
        TEST(test_a_kill_at_any_moment_leaves_the_previous_file_and_a_stale_one),
        TEST(test_a_real_short_write_leaves_the_previous_file),
        TEST(test_a_folder_that_is_not_there_is_an_io_error),
        TEST(test_only_temporary_files_of_this_path_are_stale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

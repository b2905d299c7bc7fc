/* SPDX-License-Identifier: MIT */
/* test_checkpoint_damage.c -- a checkpoint cut, changed or made to harm is refused by name.
 */
#include "support/test.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crc32c.h"
#include "io/checkpoint.h"
#include "support/checkpoint_file.h"

/* -- damage ---------------------------------------------------------------------------------- */

static void test_a_file_cut_at_any_byte_is_refused(void **state)
{
    (void)state;
    static file_bytes file;
    assert_int_equal(save_example(), LS_OK);
    read_file(&file);
    for (size_t count = file.count; count-- > 0;) {
        assert_int_equal(truncate(file_path, (off_t)count), 0);
        assert_refused(count < 8 ? "too short" : "cut off");
    }
}

static void test_added_bytes_are_refused(void **state)
{
    (void)state;
    static file_bytes file;
    assert_int_equal(save_example(), LS_OK);
    read_file(&file);
    file.byte[file.count] = 0;
    write_file(file.byte, file.count + 1);
    assert_refused("trailing bytes");
}

static void test_any_flipped_bit_is_refused(void **state)
{
    (void)state;
    static file_bytes file;
    assert_int_equal(save_example(), LS_OK);
    read_file(&file);
    for (size_t bit = 0; bit < 8 * file.count; bit++) {
        const unsigned char right = file.byte[bit / 8];
        ls_checkpoint *c = NULL;
        write_byte(bit / 8, (unsigned char)(right ^ 1u << bit % 8));
        if (ls_checkpoint_open(file_path, &c) != LS_ERR_FORMAT) {
            fail_msg("bit %zu went unseen", bit);
        }
        write_byte(bit / 8, right);
    }
    ls_checkpoint_close(open_file());
}

static void test_damage_is_named_by_its_section(void **state)
{
    (void)state;
    static file_bytes file;
    assert_int_equal(save_example(), LS_OK);
    read_file(&file);
    const size_t data = data_of_file(&file);
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
    assert_refused("no such file, expected a checkpoint");
    write_file((const unsigned char *)"", 0);
    assert_refused("0 bytes, too short");
    write_file((const unsigned char *)"PK\3\4 this is a zip file, so to say", 33);
    assert_refused("no checkpoint");
    unlink(file_path);
    assert_int_equal(mkdir(file_path, 0777), 0);
    assert_refused("not a regular file");
    rmdir(file_path);
    assert_int_equal(mkfifo(file_path, 0666), 0);
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
    FILE *f = fopen(file_path, "wb");
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
        const char *metadata, *example_tensors;
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
          "2 checks for 1 tensor: " },
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
        write_crafted(lie[i].metadata, lie[i].example_tensors, lie[i].data_bytes);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_WITH_FILE(test_a_file_cut_at_any_byte_is_refused),
        TEST_WITH_FILE(test_added_bytes_are_refused),
        TEST_WITH_FILE(test_any_flipped_bit_is_refused),
        TEST_WITH_FILE(test_damage_is_named_by_its_section),
        TEST_WITH_FILE(test_what_is_no_checkpoint_is_refused),
        TEST_WITH_FILE(test_crafted_headers_that_are_right_are_opened),
        TEST_WITH_FILE(test_a_header_that_misaligns_the_data_is_refused),
        TEST_WITH_FILE(test_crafted_headers_that_lie_are_refused),
        TEST_WITH_FILE(test_a_name_longer_than_the_format_allows_is_refused),
        TEST_WITH_FILE(test_a_header_longer_than_the_file_or_the_limit_is_refused),
        TEST_WITH_FILE(test_a_foreign_safetensors_file_is_refused_as_such),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

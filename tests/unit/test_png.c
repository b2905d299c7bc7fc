/* SPDX-License-Identifier: MIT */
/* test_png.c -- pictures come back from the PNG files that are made of them. */
#include "io/png.h"

#include <stdio.h>

#include "support/data_folder.h"
#include "support/naive.h"
#include "support/stored_png.h"
#include "support/test.h"

static ls_image random_image(size_t width, size_t height, size_t channels)
{
    naive_random random = { width * 31 + height * 7 + channels };
    ls_image image = { width, height, channels, malloc(width * height * channels) };
    assert_non_null(image.pixels);
    for (size_t i = 0; i < width * height * channels; i++) {
        image.pixels[i] = (uint8_t)naive_next(&random);
    }
    return image;
}

static void must_be_same(const ls_image *want, const unsigned char *png, size_t bytes)
{
    ls_image got;
    const char *wrong = stored_png_read(png, bytes, &got);
    if (wrong) fail_msg("%zux%zux%zu: %s", want->height, want->width, want->channels, wrong);
    assert_true(got.width == want->width && got.height == want->height);
    assert_int_equal(got.channels, want->channels);
    assert_memory_equal(got.pixels, want->pixels, got.width * got.height * got.channels);
    free(got.pixels);
}

/* Rows whose bytes end a block of 65535, or begin one, or fill several. */
static void test_pictures_of_any_size_come_back(void **state)
{
    (void)state;
    static const size_t sizes[][2] = { { 1, 1 }, { 1, 7 }, { 5, 3 }, { 65533, 1 }, { 65534, 1 },
                                       { 65535, 1 }, { 4368, 15 }, { 300, 700 }, { 1, 32767 } };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (size_t channels = 1; channels <= 3; channels += 2) {
            ls_image image = random_image(sizes[i][0], sizes[i][1], channels);
            unsigned char *png;
            size_t bytes;
            assert_int_equal(ls_png_encode(&image, &png, &bytes), LS_OK);
            must_be_same(&image, png, bytes);
            free(png);
            free(image.pixels);
        }
    }
}

static void test_the_smallest_picture_has_the_known_bytes(void **state)
{
    (void)state;
    /* A grey pixel of 127, as python3's zlib sums it. */
    static const unsigned char known[] = {
        0x89, 'P', 'N', 'G', 13, 10, 26, 10,
        0, 0, 0, 13, 'I', 'H', 'D', 'R', 0, 0, 0, 1, 0, 0, 0, 1, 8, 0, 0, 0, 0,
        0x3a, 0x7e, 0x9b, 0x55,
        0, 0, 0, 13, 'I', 'D', 'A', 'T', 0x78, 1, 1, 2, 0, 0xfd, 0xff, 0, 127, 0, 0x81, 0, 0x80,
        0x7c, 0x4b, 0x6c, 0xa3,
        0, 0, 0, 0, 'I', 'E', 'N', 'D', 0xae, 0x42, 0x60, 0x82,
    };
    uint8_t pixel = 127;
    unsigned char *png;
    size_t bytes;
    assert_int_equal(ls_png_encode(&(ls_image){ 1, 1, 1, &pixel }, &png, &bytes), LS_OK);
    assert_int_equal(bytes, sizeof known);
    assert_memory_equal(png, known, sizeof known);
    free(png);
}

static void test_a_picture_too_large_for_a_chunk_is_refused(void **state)
{
    (void)state;
    unsigned char *png;
    size_t bytes;
    const ls_image wide = { (size_t)1 << 32, 1, 3, NULL };
    const ls_image large = { 40000, 40000, 3, NULL };
    assert_int_equal(ls_png_encode(&wide, &png, &bytes), LS_ERR_ARGUMENT);
    assert_int_equal(ls_png_encode(&large, &png, &bytes), LS_ERR_ARGUMENT);
    assert_non_null(strstr(ls_last_error(), "40000 x 40000 pixels: too large"));
}

static void test_a_file_holds_what_was_encoded(void **state)
{
    (void)state;
    folder = data_folder_create();
    char path[1024];
    unsigned char *png, read[4096];
    size_t bytes;
    ls_image image = random_image(20, 30, 3);
    snprintf(path, sizeof path, "%s/a.png", data_folder_path(folder));
    assert_int_equal(ls_png_encode(&image, &png, &bytes), LS_OK);
    assert_int_equal(ls_png_save(&image, path), LS_OK);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(read, 1, sizeof read, file), bytes);
    assert_memory_equal(read, png, bytes);
    fclose(file);
    snprintf(path, sizeof path, "%s/nowhere/a.png", data_folder_path(folder));
    assert_int_equal(ls_png_save(&image, path), LS_ERR_IO);
    free(png);
    free(image.pixels);
    data_folder_destroy(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pictures_of_any_size_come_back),
        cmocka_unit_test(test_the_smallest_picture_has_the_known_bytes),
        cmocka_unit_test(test_a_picture_too_large_for_a_chunk_is_refused),
        cmocka_unit_test(test_a_file_holds_what_was_encoded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* test_contact_sheet.c -- a contact sheet shows the very pixels that a network is fed, in the order
 * in which a training takes them, each above its label. */
#include "cli/contact_sheet.h"

#include <math.h>
#include <stdio.h>

#include "cli/glyph.h"
#include "io/sampler.h"
#include "support/data_folder.h"
#include "support/test.h"

static int make_files(void **state)
{
    make_folder(state);
    data_folder_cifar10(folder, "data_batch_1.bin", 1, 30);
    data_folder_cifar10(folder, "test_batch.bin", 2, 5);
    data_folder_text(folder, "batches.meta.txt", "Zero\n1st\ntwo-a.b\nc_d+e/f\n\xc3\xa4"
                                                 "\nautomobiles and trucks\nsix\n7\n8\nn 9\n");
    data_folder_idx(folder, "train", 3, 10, 28, 28);
    return 0;
}

static ls_image draw(const ls_contact_sheet *sheet)
{
    ls_image image;
    if (ls_contact_sheet_draw(sheet, &image) != LS_OK) fail_msg("%s", ls_last_error());
    return image;
}

static const uint8_t *pixel_at(const ls_image *image, size_t x, size_t y)
{
    assert_true(x < image->width && y < image->height);
    return image->pixels + (y * image->width + x) * image->channels;
}

/* Cell n of a sheet of `columns` holds `bytes` [height, width, C], each pixel `factor` times
 * enlarged, and below it `label` of at most `room` pixels. Where a cell begins is measured from the
 * sheet's size: six pixels of margin on each side of everything. */
static void check_cell(const ls_image *sheet, size_t n, size_t columns, size_t height, size_t width,
                       size_t factor, const uint8_t *bytes, const char *label)
{
    const size_t C = sheet->channels;
    const size_t x = 6 + n % columns * (width * factor + 6);
    const size_t y = 6 + n / columns * (height * factor + 2 + 7 + 6);
    for (size_t i = 0; i < height * factor; i++) {
        for (size_t j = 0; j < width * factor; j++) {
            const uint8_t *want = bytes + (i / factor * width + j / factor) * C;
            if (memcmp(pixel_at(sheet, x + j, y + i), want, C) != 0) {
                fail_msg("cell %zu: row %zu, column %zu", n, i, j);
            }
        }
    }
    const size_t fits = (width * factor + 1) / 6, letters = strlen(label);
    for (size_t i = 0; i < 7; i++) {
        for (size_t j = 0; j < width * factor; j++) {
            const bool is_letter = j / 6 < letters && j / 6 < fits && j % 6 < 5;
            const bool dot = is_letter && ls_glyph_has_dot(label[j / 6], (int)i, (int)(j % 6));
            for (size_t c = 0; c < C; c++) {
                const uint8_t got = pixel_at(sheet, x + j, y + height * factor + 2 + i)[c];
                if (got != (dot ? 0 : 255)) fail_msg("label %s: row %zu, column %zu", label, i, j);
            }
        }
    }
}

static void test_training_samples_are_drawn_as_the_epoch_sees_them(void **state)
{
    (void)state;
    const char *const scales[] = { "255", "standard", "none" };
    for (int k = 0; k < 3; k++) {
        ls_dataset *d = must_open("cifar10:%s,scale=%s", data_folder_path(folder), scales[k]);
        ls_contact_sheet sheet = { .dataset = d, .count = 10, .seed = 4, .epoch = (uint32_t)k,
                                   .shuffle = true };
        uint32_t order[30];
        uint8_t scratch[3072], x[3072];
        assert_int_equal(ls_augment_parse("crop:4,flip,brightness:0.3,cutout:9", &sheet.augment),
                         LS_OK);
        ls_image image = draw(&sheet);
        assert_true(image.width == 6 + 4 * 70 && image.height == 6 + 3 * 79 && image.channels == 3);
        ls_sampler_order(4, (uint32_t)k, true, 30, order);
        for (size_t n = 0; n < 10; n++) {
            ls_augment_read(&sheet.augment, d, LS_PART_TRAIN, order[n], 4, (uint32_t)k, scratch, x);
            const int32_t label = ls_dataset_label(d, LS_PART_TRAIN, order[n]);
            check_cell(&image, n, 4, 32, 32, 2, x, ls_dataset_class_name(d, (size_t)label));
        }
        for (size_t i = 0; i < 64; i++) { /* the cells after the tenth are empty */
            assert_int_equal(*pixel_at(&image, 6 + 2 * 70 + i, 6 + 2 * 79 + i), 255);
        }
        free(image.pixels);
        ls_dataset_close(d);
    }
}

static void test_test_samples_are_drawn_as_they_are_all_if_there_are_fewer(void **state)
{
    (void)state;
    ls_dataset *d = must_open("cifar10:%s", data_folder_path(folder));
    ls_contact_sheet sheet = { .dataset = d, .part = LS_PART_TEST, .count = 64, .shuffle = true };
    ls_image image = draw(&sheet);
    assert_true(image.width == 6 + 3 * 70 && image.height == 6 + 2 * 79);
    for (size_t n = 0; n < 5; n++) {
        uint8_t x[3072];
        ls_dataset_read_raw(d, LS_PART_TEST, n, x);
        const int32_t label = ls_dataset_label(d, LS_PART_TEST, n);
        check_cell(&image, n, 3, 32, 32, 2, x, ls_dataset_class_name(d, (size_t)label));
    }
    free(image.pixels);
    ls_dataset_close(d);
}

static void test_floats_are_drawn_by_their_range_and_classes_without_names_as_numbers(void **state)
{
    (void)state;
    ls_dataset *d = must_open("digits,scale=standard");
    ls_contact_sheet sheet = { .dataset = d, .count = 7 };
    ls_image image = draw(&sheet);
    assert_int_equal(image.channels, 1);
    for (size_t n = 0; n < 7; n++) {
        float v[64];
        uint8_t x[64];
        char label[16];
        ls_dataset_read_stored(d, LS_PART_TRAIN, n, v);
        for (int i = 0; i < 64; i++) x[i] = (uint8_t)rintf(v[i] / 16 * 255); /* 0 .. 16 */
        snprintf(label, sizeof label, "%d", (int)ls_dataset_label(d, LS_PART_TRAIN, n));
        check_cell(&image, n, 3, 8, 8, 8, x, label);
    }
    free(image.pixels);
    ls_dataset_close(d);
}

static void test_the_first_target_is_the_label_of_a_regression(void **state)
{
    (void)state;
    const float target[4] = { -2.5f, 100, 0.125f, 7 };
    const unsigned char pixels[2 * 70 * 30] = { 0 };
    const char *path = data_folder_path(folder);
    data_folder_npy(folder, "x.npy",
                    "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 70, 30)}", pixels,
                    sizeof pixels);
    data_folder_npy(folder, "y.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2)}",
                    target, sizeof target);
    ls_dataset *d = must_open("npy:%s/x.npy,%s/y.npy", path, path);
    ls_contact_sheet sheet = { .dataset = d, .count = 2 };
    ls_image image = draw(&sheet); /* 70 pixels are enough: no enlargement */
    check_cell(&image, 0, 2, 70, 30, 1, pixels, "-2.5");
    check_cell(&image, 1, 2, 70, 30, 1, pixels, "0.125");
    free(image.pixels);
    ls_dataset_close(d);
}

static void test_what_cannot_be_drawn_is_refused(void **state)
{
    (void)state;
    ls_image image;
    ls_dataset *d = must_open("idx:%s", data_folder_path(folder));
    ls_contact_sheet sheet = { .dataset = d, .part = LS_PART_TEST, .count = 2 };
    assert_int_equal(ls_contact_sheet_draw(&sheet, &image), LS_ERR_ARGUMENT);
    assert_non_null(strstr(ls_last_error(), "there is no test part"));
    sheet.part = LS_PART_TRAIN;
    sheet.augment.crop = 28;
    assert_int_equal(ls_contact_sheet_draw(&sheet, &image), LS_ERR_ARGUMENT);
    assert_non_null(strstr(ls_last_error(), "pictures are 28x28"));
    ls_dataset_close(d);
    data_folder_text(folder, "rows.csv", "1,2,3,0\n4,5,6,1\n");
    d = must_open("csv:%s/rows.csv,test=none", data_folder_path(folder));
    sheet = (ls_contact_sheet){ .dataset = d, .count = 2 };
    assert_int_equal(ls_contact_sheet_draw(&sheet, &image), LS_ERR_ARGUMENT);
    assert_non_null(strstr(ls_last_error(), "3 numbers a sample, expected pictures"));
    ls_dataset_close(d);
    const unsigned char two[2 * 4 * 4 * 2] = { 0 }, label[2] = { 0, 1 };
    const char *path = data_folder_path(folder);
    data_folder_npy(folder, "two.npy",
                    "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 4, 4, 2)}", two,
                    sizeof two);
    data_folder_npy(folder, "l.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (2,)}",
                    label, sizeof label);
    d = must_open("npy:%s/two.npy,%s/l.npy", path, path);
    sheet.dataset = d;
    assert_int_equal(ls_contact_sheet_draw(&sheet, &image), LS_ERR_ARGUMENT);
    assert_non_null(strstr(ls_last_error(), "2 channels, expected pictures of 1 or 3 channels"));
    ls_dataset_close(d);
}

/* -- glyphs ---------------------------------------------------------------------------------- */

static void test_no_two_characters_look_alike(void **state)
{
    (void)state;
    static const char all[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ-._+/ ?";
    uint64_t seen[sizeof all - 1];
    for (size_t n = 0; n < sizeof all - 1; n++) {
        seen[n] = 0;
        for (int k = 0; k < 35; k++) {
            seen[n] |= (uint64_t)ls_glyph_has_dot(all[n], k / 5, k % 5) << k;
        }
        for (size_t m = 0; m < n; m++) {
            if (seen[m] == seen[n]) fail_msg("'%c' and '%c'", all[m], all[n]);
        }
    }
    for (int k = 0; k < 35; k++) {
        assert_int_equal(ls_glyph_has_dot('q', k / 5, k % 5), ls_glyph_has_dot('Q', k / 5, k % 5));
        assert_int_equal(ls_glyph_has_dot('\xc3', k / 5, k % 5),
                         ls_glyph_has_dot('?', k / 5, k % 5));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_training_samples_are_drawn_as_the_epoch_sees_them),
        cmocka_unit_test(test_test_samples_are_drawn_as_they_are_all_if_there_are_fewer),
        cmocka_unit_test(test_floats_are_drawn_by_their_range_and_classes_without_names_as_numbers),
        cmocka_unit_test(test_the_first_target_is_the_label_of_a_regression),
        cmocka_unit_test(test_what_cannot_be_drawn_is_refused),
        cmocka_unit_test(test_no_two_characters_look_alike),
    };
    return cmocka_run_group_tests(tests, make_files, remove_folder);
}

/* SPDX-License-Identifier: MIT */
/* test_augment.c -- what augmenting does to a sample, against docs/numerics.md 7 spelled out again;
 * what is refused. For trainings see test_augment_training.c. */
#include "io/augment.h"

#include <math.h>
#include <stdio.h>

#include "philox.h"
#include "support/data_folder.h"
#include "support/naive.h"
#include "support/test.h"

enum { SAMPLES = 24, HEIGHT = 9, WIDTH = 7, CHANNELS = 3, ELEMENTS = HEIGHT * WIDTH * CHANNELS };
enum { PIXELS_MAX = 256, ELEMENTS_MAX = 1024 }; /* of any picture here */

static ls_dataset *bytes;      /* images of bytes, scale standard */
static ls_dataset *floats;     /* images of floats, scale standard */
static ls_dataset *digits;

static int open_data(void **state)
{
    (void)state;
    enum { COUNT = SAMPLES * ELEMENTS };
    unsigned char u8[COUNT], label[SAMPLES];
    float f32[COUNT];
    naive_random random = { 17 };
    for (int i = 0; i < COUNT; i++) u8[i] = (unsigned char)naive_next(&random);
    for (int i = 0; i < COUNT; i++) f32[i] = naive_unit(&random);
    for (int i = 0; i < SAMPLES; i++) label[i] = (unsigned char)(i % 3);
    folder = data_folder_create();
    const char *path = data_folder_path(folder);
    data_folder_npy(folder, "u8.npy",
                    "{'descr': '|u1', 'fortran_order': False, 'shape': (24, 9, 7, 3)}", u8,
                    sizeof u8);
    data_folder_npy(folder, "f32.npy",
                    "{'descr': '<f4', 'fortran_order': False, 'shape': (24, 9, 7, 3)}", f32,
                    sizeof f32);
    data_folder_npy(folder, "y.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (24,)}",
                    label, sizeof label);
    bytes = must_open("npy:%s/u8.npy,%s/y.npy,scale=standard", path, path);
    floats = must_open("npy:%s/f32.npy,%s/y.npy,scale=standard", path, path);
    digits = must_open("digits");
    return 0;
}

static int close_data(void **state)
{
    (void)state;
    ls_dataset_close(bytes);
    ls_dataset_close(floats);
    ls_dataset_close(digits);
    data_folder_destroy(folder);
    return 0;
}

static ls_augment parsed(const char *text)
{
    ls_augment augment;
    if (ls_augment_parse(text, &augment) != LS_OK) fail_msg("%s", ls_last_error());
    return augment;
}

/* -- text ------------------------------------------------------------------------------------ */

static void test_a_list_comes_back_in_the_order_of_operations(void **state)
{
    (void)state;
    static const char *const texts[][2] = {
        { "none", "none" },
        { "flip", "flip" },
        { "cutout:8,contrast:0.2,brightness:2e-1,vflip,flip,crop:4",
          "crop:4,flip,vflip,brightness:0.2,contrast:0.2,cutout:8" },
        { "crop:65535,contrast:1", "crop:65535,contrast:1" },
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char text[LS_AUGMENT_TEXT_BYTES];
        const ls_augment augment = parsed(texts[i][0]);
        ls_augment_write(&augment, text);
        assert_string_equal(text, texts[i][1]);
        assert_int_equal(ls_augment_is_none(&augment), i == 0);
    }
}

static void test_what_is_no_operation_is_refused(void **state)
{
    (void)state;
    static const char *const refused[][2] = {
        { "flop", "found 'flop', expected crop:P" }, { "flop", "did you mean flip?" },
        { "", "found '', expected crop:P" },         { "flip,", "found '', expected" },
        { "none,flip", "found 'none'" },             { "flip,crop:1,flip", "each operation once" },
        { "flip:1", "nothing after them" },          { "crop", "found 'crop', expected crop:P or" },
        { "crop:0", "from 1" },                      { "crop:-1", "from 1" },
        { "crop:1.5", "from 1" },                    { "crop:65536", "from 1" },
        { "crop:99999999999999999999", "from 1" },   { "cutout:", "from 1" },
        { "brightness", "X above 0 and at most 1" }, { "brightness:0", "above 0" },
        { "contrast:1.01", "at most 1" },            { "contrast:nan", "above 0" },
        { "brightness:0x1", "above 0" },             { "brightness:-0.1", "above 0" },
        { "crop:4 ", "from 1" },
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        ls_augment augment = { .cutout = 77 };
        assert_int_equal(ls_augment_parse(refused[i][0], &augment), LS_ERR_ARGUMENT);
        if (!strstr(ls_last_error(), refused[i][1])) {
            fail_msg("'%s': \"%s\" does not say \"%s\"", refused[i][0], ls_last_error(),
                     refused[i][1]);
        }
        assert_int_equal(augment.cutout, 77);
    }
}

static void test_data_that_are_no_images_and_pictures_too_small_are_refused(void **state)
{
    (void)state;
    const ls_dataset_info row = { .height = 1, .width = 1, .channels = 30 };
    const ls_dataset_info pixel = { .is_image = true, .height = 1, .width = 1, .channels = 3 };
    ls_augment a = parsed("flip");
    assert_int_equal(ls_augment_check(&a, &row), LS_ERR_ARGUMENT);
    assert_non_null(strstr(ls_last_error(), "--augment flip: a sample is a row of 30 numbers"));
    a = parsed("none");
    assert_int_equal(ls_augment_check(&a, &row), LS_OK);

    /* A picture of one pixel may be turned and change its light; of the others nothing is left. */
    a = parsed("flip,vflip,brightness:1,contrast:1");
    assert_int_equal(ls_augment_check(&a, &pixel), LS_OK);
    a = parsed("cutout:1");
    assert_int_equal(ls_augment_check(&a, &pixel), LS_ERR_ARGUMENT);
    assert_non_null(strstr(ls_last_error(), "pictures are 1x1, expected crop and cutout of fewer"));
    a = parsed("crop:1");
    assert_int_equal(ls_augment_check(&a, &pixel), LS_ERR_ARGUMENT);

    const ls_dataset_info *info = ls_dataset_describe(bytes); /* 9 x 7 */
    a = parsed("crop:6,cutout:6");
    assert_int_equal(ls_augment_check(&a, info), LS_OK);
    a = parsed("crop:7");
    assert_int_equal(ls_augment_check(&a, info), LS_ERR_ARGUMENT);
    a = parsed("cutout:7");
    assert_int_equal(ls_augment_check(&a, info), LS_ERR_ARGUMENT);
}

/* -- samples, from the definition -------------------------------------------------------------- */

/* The eight words of a sample. */
static void words_of(uint64_t seed, uint32_t epoch, uint32_t sample, uint32_t word[8])
{
    const uint32_t key[2] = { (uint32_t)(seed & 0xffffffffu), (uint32_t)(seed >> 32) };
    for (uint32_t quad = 0; quad < 2; quad++) {
        const uint32_t counter[4] = { quad, sample, epoch, 4u << 16 };
        ls_philox(counter, key, word + 4 * quad);
    }
}

static size_t choice(uint32_t word, size_t n)
{
    return (size_t)(word / 4294967296.0 * (double)n);
}

static float as_byte(float v)
{
    return v < 0 ? 0 : v > 255 ? 255 : nearbyintf(v);
}

/* x [height, width, channels] as stored -> y. One number at a time. */
static void augmented(const ls_augment *a, const uint32_t word[8], size_t H, size_t W, size_t C,
                      double top, bool is_u8, const float *x, float *y)
{
    const size_t P = a->crop;
    for (size_t i = 0; i < H; i++) {
        for (size_t j = 0; j < W; j++) {
            const size_t row = a->vflip && word[1] >> 31 ? H - 1 - i : i;
            const size_t column = a->flip && word[0] >> 31 ? W - 1 - j : j;
            const size_t r = row + choice(word[2], 2 * P + 1); /* in the padded picture */
            const size_t s = column + choice(word[3], 2 * P + 1);
            const bool padding = r < P || s < P || r >= H + P || s >= W + P;
            for (size_t c = 0; c < C; c++) {
                y[(i * W + j) * C + c] = padding ? 0 : x[((r - P) * W + s - P) * C + c];
            }
        }
    }
    if (a->brightness > 0) {
        const float d = (float)(a->brightness * top * (word[4] / 2147483648.0 - 1.0));
        for (size_t i = 0; i < H * W * C; i++) y[i] = is_u8 ? as_byte(y[i] + d) : y[i] + d;
    }
    if (a->contrast > 0) {
        const float f = (float)(1.0 + a->contrast * (word[5] / 2147483648.0 - 1.0));
        for (size_t c = 0; c < C; c++) {
            float channel[PIXELS_MAX], one[PIXELS_MAX];
            for (size_t p = 0; p < H * W; p++) channel[p] = y[p * C + c], one[p] = 1;
            const float m = (float)(naive_flat_f64(channel, one, H * W) / (double)(H * W));
            for (size_t p = 0; p < H * W; p++) {
                const float scaled = (channel[p] - m) * f;
                y[p * C + c] = is_u8 ? as_byte(scaled + m) : scaled + m;
            }
        }
    }
    if (a->cutout == 0) return;
    const long first_row = (long)choice(word[6], H) - (long)(a->cutout / 2);
    const long first_column = (long)choice(word[7], W) - (long)(a->cutout / 2);
    for (size_t i = 0; i < H; i++) {
        for (size_t j = 0; j < W; j++) {
            const long r = (long)i - first_row, s = (long)j - first_column;
            if (r < 0 || s < 0 || r >= (long)a->cutout || s >= (long)a->cutout) continue;
            for (size_t c = 0; c < C; c++) y[(i * W + j) * C + c] = 0;
        }
    }
}

/* All samples in three epochs. */
static void check_dataset(const ls_dataset *d, const char *list, size_t samples, uint64_t seed)
{
    const ls_augment a = parsed(list);
    const ls_dataset_info *info = ls_dataset_describe(d);
    const size_t H = info->height, W = info->width, C = info->channels;
    const bool is_u8 = info->element == LS_ELEMENT_U8;
    float scratch[ELEMENTS_MAX], got[ELEMENTS_MAX], x[ELEMENTS_MAX], want[ELEMENTS_MAX];
    assert_int_equal(ls_augment_check(&a, info), LS_OK);
    for (uint32_t epoch = 0; epoch < 3; epoch++) {
        for (size_t n = 0; n < samples; n++) {
            uint32_t word[8];
            words_of(seed, epoch, (uint32_t)n, word);
            ls_dataset_read_stored(d, LS_PART_TRAIN, n, got);
            for (size_t i = 0; i < H * W * C; i++) x[i] = is_u8 ? ((uint8_t *)got)[i] : got[i];
            augmented(&a, word, H, W, C, ls_dataset_range_top(d), is_u8, x, want);
            ls_augment_read_stored(&a, d, LS_PART_TRAIN, n, seed, epoch, scratch, got);
            for (size_t i = 0; i < H * W * C; i++) {
                const float v = is_u8 ? ((uint8_t *)got)[i] : got[i];
                if (v != want[i]) {
                    fail_msg("%s, epoch %u, sample %zu, number %zu: %g, expected %g", list, epoch,
                             n, i, (double)v, (double)want[i]);
                }
            }
            ls_augment_read(&a, d, LS_PART_TRAIN, n, seed, epoch, scratch, got);
            if (is_u8) continue;
            ls_dataset_scale(d, want); /* floats are scaled after, not before */
            assert_memory_equal(got, want, H * W * C * sizeof(float));
        }
    }
}

static const char *const lists[] = {
    "none", "flip", "vflip", "crop:1", "crop:6", "brightness:0.4", "contrast:1", "cutout:1",
    "cutout:6", "crop:3,flip,vflip,brightness:0.3,contrast:0.7,cutout:4", "cutout:5,crop:2",
    "contrast:0.5,brightness:1",
};

static void test_each_operation_does_what_its_words_say(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        check_dataset(bytes, lists[i], SAMPLES, 5 + i);
        check_dataset(floats, lists[i], SAMPLES, 0x123456789abcdefu * i);
        check_dataset(digits, lists[i], 30, i);
    }
}

/* Rows of every length up to 25 pixels, each of one to five bytes or one to four floats. */
static void test_pictures_of_any_width_and_depth_are_augmented_alike(void **state)
{
    (void)state;
    enum { COUNT = 4, HEIGHT_OF_ALL = 7 };
    static unsigned char u8[COUNT * HEIGHT_OF_ALL * 25 * 5];
    static float f32[COUNT * HEIGHT_OF_ALL * 25 * 4];
    const unsigned char label[COUNT] = { 0, 1, 2, 0 };
    const char *path = data_folder_path(folder);
    naive_random random = { 29 };
    for (size_t i = 0; i < sizeof u8; i++) u8[i] = (unsigned char)naive_next(&random);
    for (size_t i = 0; i < sizeof f32 / sizeof *f32; i++) f32[i] = naive_unit(&random);
    data_folder_npy(folder, "few_y.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (4,)}",
                    label, sizeof label);
    for (size_t width = 1; width <= 25; width++) {
        for (size_t C = 1; C <= 5; C++) {
            for (int is_float = 0; is_float <= (C < 5); is_float++) {
                char header[100];
                const size_t count = COUNT * HEIGHT_OF_ALL * width * C;
                snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, "
                         "'shape': (4, 7, %zu, %zu)}", is_float ? "<f4" : "|u1", width, C);
                data_folder_npy(folder, "few.npy", header, is_float ? (void *)f32 : (void *)u8,
                                is_float ? count * sizeof(float) : count);
                ls_dataset *d = must_open("npy:%s/few.npy,%s/few_y.npy", path, path);
                check_dataset(d, "flip,vflip", COUNT, width);
                check_dataset(d, "contrast:0.6,brightness:0.4", COUNT, 100 + width);
                if (width > 1) check_dataset(d, "crop:1,flip,cutout:1", COUNT, 200 + width);
                ls_dataset_close(d);
            }
        }
    }
}

static void test_digits_have_values_up_to_sixteen_and_floats_up_to_one(void **state)
{
    (void)state;
    ls_dataset *scaled = must_open("npy:%s/f32.npy,%s/y.npy,scale=255", data_folder_path(folder),
                                   data_folder_path(folder));
    assert_true(ls_dataset_range_top(bytes) == 255);
    assert_true(ls_dataset_range_top(floats) == 1);
    assert_true(ls_dataset_range_top(digits) == 16);
    assert_true(ls_dataset_range_top(scaled) == 255);
    ls_dataset_close(scaled);
}

/* Of 1438 digits in an epoch: about half are turned, every one of 25 windows is taken, and the next
 * epoch draws anew. */
static void test_draws_are_spread_and_differ_from_epoch_to_epoch(void **state)
{
    (void)state;
    const ls_augment flip = parsed("flip"), crop = parsed("crop:2");
    float scratch[64], x[64], plain[64], moved[64];
    int turned = 0, same = 0, window[5][5] = { { 0 } };
    for (size_t n = 0; n < 1438; n++) {
        uint32_t first[8], second[8];
        ls_dataset_read(digits, LS_PART_TRAIN, n, plain);
        ls_augment_read(&flip, digits, LS_PART_TRAIN, n, 1, 0, scratch, x);
        turned += memcmp(x, plain, sizeof x) != 0; /* no digit is its own mirror image */
        ls_augment_read(&crop, digits, LS_PART_TRAIN, n, 1, 0, scratch, x);
        ls_augment_read(&crop, digits, LS_PART_TRAIN, n, 1, 1, scratch, moved);
        same += memcmp(x, moved, sizeof x) == 0;
        words_of(1, 0, (uint32_t)n, first);
        words_of(1, 1, (uint32_t)n, second);
        assert_true(memcmp(first, second, sizeof first) != 0);
        window[choice(first[2], 5)][choice(first[3], 5)]++;
    }
    assert_in_range(turned, 660, 780);  /* 719 and three standard deviations */
    assert_in_range(same, 30, 90);      /* 1438 / 25 = 58 */
    for (int i = 0; i < 25; i++) assert_in_range(window[i / 5][i % 5], 30, 90);
}

static void test_a_pixel_alone_is_turned_in_place_and_has_no_contrast(void **state)
{
    (void)state;
    const unsigned char pixel[3] = { 10, 200, 255 }, label[1] = { 0 };
    data_folder_npy(folder, "pixel.npy",
                    "{'descr': '|u1', 'fortran_order': False, 'shape': (1, 1, 1, 3)}", pixel, 3);
    data_folder_npy(folder, "pixel_y.npy",
                    "{'descr': '|u1', 'fortran_order': False, 'shape': (1,)}", label, 1);
    ls_dataset *d = must_open("npy:%s/pixel.npy,%s/pixel_y.npy", data_folder_path(folder),
                              data_folder_path(folder));
    const ls_augment a = parsed("flip,vflip,contrast:1");
    assert_int_equal(ls_augment_check(&a, ls_dataset_describe(d)), LS_OK);
    for (uint32_t epoch = 0; epoch < 20; epoch++) {
        unsigned char scratch[3], x[3];
        ls_augment_read(&a, d, LS_PART_TRAIN, 0, 1, epoch, scratch, x);
        assert_memory_equal(x, pixel, 3);
    }
    ls_dataset_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_list_comes_back_in_the_order_of_operations),
        cmocka_unit_test(test_what_is_no_operation_is_refused),
        cmocka_unit_test(test_data_that_are_no_images_and_pictures_too_small_are_refused),
        cmocka_unit_test(test_each_operation_does_what_its_words_say),
        cmocka_unit_test(test_pictures_of_any_width_and_depth_are_augmented_alike),
        cmocka_unit_test(test_digits_have_values_up_to_sixteen_and_floats_up_to_one),
        cmocka_unit_test(test_draws_are_spread_and_differ_from_epoch_to_epoch),
        cmocka_unit_test(test_a_pixel_alone_is_turned_in_place_and_has_no_contrast),
    };
    return cmocka_run_group_tests(tests, open_data, close_data);
}

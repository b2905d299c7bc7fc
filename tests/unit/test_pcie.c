/* SPDX-License-Identifier: MIT */
/* test_pcie.c -- how a card is plugged in, read from folders like those of /sys. */
#include "device/pcie.h"

#include "support/data_folder.h"
#include "support/test.h"

static void test_generations_are_told_by_their_speed(void **state)
{
    (void)state;
    assert_int_equal(ls_pcie_generation_of("2.5 GT/s PCIe\n"), 1);
    assert_int_equal(ls_pcie_generation_of("5.0 GT/s PCIe"), 2);
    assert_int_equal(ls_pcie_generation_of("8.0 GT/s PCIe"), 3);
    assert_int_equal(ls_pcie_generation_of("16.0 GT/s PCIe"), 4);
    assert_int_equal(ls_pcie_generation_of("32.0 GT/s PCIe"), 5);
    assert_int_equal(ls_pcie_generation_of("64.0 GT/s PCIe"), 6);
    assert_int_equal(ls_pcie_generation_of("8 GT/s"), 3); /* older kernels */
    assert_int_equal(ls_pcie_generation_of("Unknown"), 0);
    assert_int_equal(ls_pcie_generation_of("7.0 GT/s"), 0);
    assert_int_equal(ls_pcie_generation_of("8.0 Gb/s"), 0);
    assert_int_equal(ls_pcie_generation_of(""), 0);
}

static void test_a_folder_of_values_is_read_whole(void **state)
{
    (void)state;
    folder = data_folder_create();
    data_folder_text(folder, "current_link_speed", "8.0 GT/s PCIe\n");
    data_folder_text(folder, "max_link_speed", "16.0 GT/s PCIe\n");
    data_folder_text(folder, "current_link_width", "8\n");
    data_folder_text(folder, "max_link_width", "16\n");
    data_folder_text(folder, "numa_node", "1\n");
    const ls_pcie pcie = ls_pcie_read(data_folder_path(folder));
    assert_int_equal(pcie.generation, 3);
    assert_int_equal(pcie.generation_max, 4);
    assert_int_equal(pcie.width, 8);
    assert_int_equal(pcie.width_max, 16);
    assert_int_equal(pcie.numa_node, 1);
    assert_true(ls_pcie_is_narrow(&pcie));
    data_folder_destroy(folder);
}

static void test_what_is_not_said_is_unknown(void **state)
{
    (void)state;
    const ls_pcie none = ls_pcie_read(NULL);
    assert_int_equal(none.generation + none.generation_max + none.width + none.width_max, 0);
    assert_int_equal(none.numa_node, -1);
    assert_false(ls_pcie_is_narrow(&none));
    folder = data_folder_create();
    data_folder_text(folder, "current_link_width", "x8\n");
    data_folder_text(folder, "max_link_width", "99999\n");
    data_folder_text(folder, "numa_node", "-1\n");
    const ls_pcie odd = ls_pcie_read(data_folder_path(folder));
    assert_int_equal(odd.width + odd.width_max, 0);
    assert_int_equal(odd.numa_node, -1);
    data_folder_destroy(folder);
}

static void test_a_link_of_full_width_is_not_narrow(void **state)
{
    (void)state;
    const ls_pcie full = { .width = 16, .width_max = 16 }, unknown = { .width_max = 16 };
    assert_false(ls_pcie_is_narrow(&full));
    assert_false(ls_pcie_is_narrow(&unknown));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_generations_are_told_by_their_speed),
        cmocka_unit_test(test_a_folder_of_values_is_read_whole),
        cmocka_unit_test(test_what_is_not_said_is_unknown),
        cmocka_unit_test(test_a_link_of_full_width_is_not_narrow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* test_sha256.c -- the vectors of FIPS 180-4, the padding's edges, and streams cut anywhere; in
 * plain C and with the instructions that this CPU has for it. */
#include "support/test.h"

#include "sha256.h"

enum { FORMS = 2 };

/* A new digest by form 0, plain C, or form 1, what this CPU is given. */
static ls_sha256 started(int form)
{
    ls_sha256 sha;
    ls_sha256_init(&sha);
    sha.mix = form == 0 ? ls_sha256_mix : ls_sha256_mix_here();
    return sha;
}

static void assert_digest(const void *data, size_t bytes, const char *want)
{
    for (int form = 0; form < FORMS; form++) {
        char hex[65];
        ls_sha256 sha = started(form);
        ls_sha256_update(&sha, data, bytes);
        ls_sha256_final_hex(&sha, hex);
        assert_string_equal(hex, want);
    }
}

static void test_a_digest_is_made_as_this_cpu_does_it_best(void **state)
{
    (void)state;
    ls_sha256 sha;
    ls_sha256_init(&sha);
    assert_true(sha.mix == ls_sha256_mix_here());
}

static void test_published_vectors_come_out(void **state)
{
    (void)state;
    assert_digest(NULL, 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_digest("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_digest("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
                  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    assert_digest("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
                  "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu", 112,
                  "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
}

static void test_a_million_letters_come_out(void **state)
{
    (void)state;
    char part[1000], hex[65];
    memset(part, 'a', sizeof part);
    for (int form = 0; form < FORMS; form++) {
        ls_sha256 sha = started(form);
        for (int i = 0; i < 1000; i++) ls_sha256_update(&sha, part, sizeof part);
        ls_sha256_final_hex(&sha, hex);
        assert_string_equal(hex,
                            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    }
}

/* Digests of n letters 'a', n around the lengths where the padding needs another block; made with
 * coreutils' sha256sum. */
static void test_the_padding_is_right_at_its_edges(void **state)
{
    (void)state;
    char x[128];
    memset(x, 'a', sizeof x);
    assert_digest(x, 55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
    assert_digest(x, 56, "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a");
    assert_digest(x, 63, "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34");
    assert_digest(x, 64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
    assert_digest(x, 65, "635361c48bb9eab14198e76ea8ab7f1a41685d6ad62aa9146d301d4f17eb0ae0");
    assert_digest(x, 119, "31eba51c313a5c08226adf18d4a359cfdfd8d2e816b13f4af952f7ea6584dcfb");
    assert_digest(x, 120, "2f3d335432c70b580af0e8e1b3674a7c020d683aa5f73aaaedfdc55af904c21c");
    assert_digest(x, 128, "6836cf13bac400e9105071cd6af47084dfacad4e5e302c94bfed24e013afb73e");
}

static void test_where_a_stream_is_cut_changes_nothing(void **state)
{
    (void)state;
    unsigned char x[200];
    for (size_t i = 0; i < sizeof x; i++) x[i] = (unsigned char)(i * 7);
    char whole[65], parts[65];
    ls_sha256 sha = started(0);
    ls_sha256_update(&sha, x, sizeof x);
    ls_sha256_final_hex(&sha, whole);
    for (size_t a = 0; a <= sizeof x; a++) {
        for (size_t b = a; b <= sizeof x; b += 1 + b % 5) {
            sha = started((int)(b % FORMS));
            ls_sha256_update(&sha, x, a);
            ls_sha256_update(&sha, x + a, b - a);
            ls_sha256_update(&sha, x + b, sizeof x - b);
            ls_sha256_final_hex(&sha, parts);
            assert_string_equal(parts, whole);
        }
    }
}

/* Runs of blocks at once, from any place in memory. */
static void test_many_blocks_in_one_call_are_mixed_as_one_by_one(void **state)
{
    (void)state;
    static unsigned char x[64 * 40 + 16];
    for (size_t i = 0; i < sizeof x; i++) x[i] = (unsigned char)(i * i >> 3);
    for (size_t shift = 0; shift < 16; shift++) {
        for (size_t count = 0; count <= 40; count++) {
            uint32_t whole[8], parts[8];
            for (uint32_t i = 0; i < 8; i++) whole[i] = parts[i] = 0x9e3779b9u * (i + 1);
            ls_sha256_mix_here()(whole, x + shift, count);
            for (size_t i = 0; i < count; i++) ls_sha256_mix(parts, x + shift + 64 * i, 1);
            assert_memory_equal(whole, parts, sizeof whole);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_digest_is_made_as_this_cpu_does_it_best),
        cmocka_unit_test(test_published_vectors_come_out),
        cmocka_unit_test(test_a_million_letters_come_out),
        cmocka_unit_test(test_the_padding_is_right_at_its_edges),
        cmocka_unit_test(test_where_a_stream_is_cut_changes_nothing),
        cmocka_unit_test(test_many_blocks_in_one_call_are_mixed_as_one_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Parsing and printing the values of settings. */
#include "base/text.h"
#include "test.h"

#include <limits.h>

#define NUM(_array) (sizeof(_array) / sizeof((_array)[0]))

/* Initial value of an output that must not be written. */
#define UNTOUCHED 77

typedef struct example {
    const char *text;
    uint64_t    value;
} example_t;

static void check_sizes(const example_t *examples, size_t num_examples)
{
    for (size_t i = 0; i < num_examples; i++) {
        size_t size;

        ck_assert_msg(base_parse_size(examples[i].text, &size), "%s",
                      examples[i].text);
        ck_assert_msg(size == examples[i].value, "%s is %zu", examples[i].text,
                      size);
    }
}

TEST(a_size_is_bytes_or_has_a_suffix)
{
    static const example_t examples[] = {
        {"0", 0},
        {"1", 1},
        {"007", 7},
        {"4k", 4096},
        {"4m", 4194304},
        {"500m", 524288000},
        {"2g", UINT64_C(2147483648)},
        {"3t", UINT64_C(3298534883328)},
        {"0t", 0},
    };

    check_sizes(examples, NUM(examples));
}

TEST(a_size_may_name_bytes_and_be_in_any_case)
{
    static const example_t examples[] = {
        {"12b", 12},           {"12B", 12},        {"4K", 4096},
        {"4kb", 4096},         {"4KB", 4096},      {"1Mb", 1048576},
        {"auto", SIZE_MAX},    {"AUTO", SIZE_MAX}, {"inf", SIZE_MAX - 1},
        {"Inf", SIZE_MAX - 1},
    };

    check_sizes(examples, NUM(examples));
}

TEST(the_largest_size_is_accepted_and_the_next_rejected)
{
    size_t size = UNTOUCHED;

    ck_assert(base_parse_size("18446744073709551613", &size));
    ck_assert_uint_eq(size, SIZE_MAX - 2);

    size = UNTOUCHED;
    /* These values would be read as inf and auto. */
    ck_assert(!base_parse_size("18446744073709551614", &size));
    ck_assert(!base_parse_size("18446744073709551615", &size));
    /* These overflow in a sum, in a product, or by the suffix. */
    ck_assert(!base_parse_size("18446744073709551616", &size));
    ck_assert(!base_parse_size("99999999999999999999", &size));
    ck_assert(!base_parse_size("16777216t", &size));
    ck_assert_uint_eq(size, UNTOUCHED);
    ck_assert(base_parse_size("16777215t", &size));
}

TEST(invalid_sizes_are_rejected)
{
    static const char *const texts[] = {
        "",   " ",    "m",        "4x",  "4mm",  "4bb",  "4bk",     "4 m",
        " 4", "4 ",   "-4",       "+4",  "0x10", "4.5m", "4e3",     "autox",
        "4p", "4kib", "infinite", "4k4", "four", "4\n",  "\xc2\xb2"};
    size_t size = UNTOUCHED;

    for (size_t i = 0; i < NUM(texts); i++) {
        ck_assert_msg(!base_parse_size(texts[i], &size), "\"%s\"", texts[i]);
    }
    ck_assert_uint_eq(size, UNTOUCHED);
}

static void check_times(const example_t *examples, size_t num_examples)
{
    for (size_t i = 0; i < num_examples; i++) {
        uint64_t ns;

        ck_assert_msg(base_parse_time(examples[i].text, &ns), "%s",
                      examples[i].text);
        ck_assert_uint_eq(ns, examples[i].value);
    }
}

TEST(a_time_has_a_unit)
{
    static const example_t examples[] = {
        {"7ns", 7},
        {"10us", 10000},
        {"200ms", 200000000},
        {"5s", UINT64_C(5000000000)},
        {"5S", UINT64_C(5000000000)},
        {"1m", UINT64_C(60000000000)},
        {"2h", UINT64_C(7200000000000)},
        {"0", 0},
        {"0s", 0},
        {"inf", UINT64_MAX},
        {"INF", UINT64_MAX},
        {"18446744073709551614ns", UINT64_MAX - 1},
    };

    check_times(examples, NUM(examples));
}

TEST(invalid_times_are_rejected)
{
    static const char *const texts[] = {"",
                                        "5",
                                        "s",
                                        "5 s",
                                        "-5s",
                                        "0.5s",
                                        "5d",
                                        "5sec",
                                        "auto",
                                        "5k",
                                        "5s ",
                                        " 5s",
                                        "18446744073709551615ns",
                                        "18446744073709551616ns",
                                        "18446744074s",
                                        "99999999999h"};
    uint64_t                 ns      = UNTOUCHED;

    for (size_t i = 0; i < NUM(texts); i++) {
        ck_assert_msg(!base_parse_time(texts[i], &ns), "\"%s\"", texts[i]);
    }
    ck_assert_uint_eq(ns, UNTOUCHED);
}

TEST(a_number_is_decimal_and_fits)
{
    unsigned number;

    ck_assert(base_parse_unsigned("0", &number));
    ck_assert_uint_eq(number, 0);
    ck_assert(base_parse_unsigned("4294967295", &number));
    ck_assert_uint_eq(number, UINT_MAX);
}

TEST(invalid_numbers_are_rejected)
{
    static const char *const texts[] = {
        "",    "-1",         "1k",
        "0x1", "1 ",         " 1",
        "one", "4294967296", "18446744073709551616"};
    unsigned number = UNTOUCHED;

    for (size_t i = 0; i < NUM(texts); i++) {
        ck_assert_msg(!base_parse_unsigned(texts[i], &number), "\"%s\"",
                      texts[i]);
    }
    ck_assert_uint_eq(number, UNTOUCHED);
}

TEST(a_word_is_found_by_its_index)
{
    static const char *const words[] = {"auto", "map", "ucx", NULL};
    unsigned                 index   = UNTOUCHED;

    ck_assert(!base_parse_word("", words, &index));
    ck_assert(!base_parse_word("ma", words, &index));
    ck_assert(!base_parse_word("maps", words, &index));
    ck_assert_uint_eq(index, UNTOUCHED);
    ck_assert(base_parse_word("auto", words, &index));
    ck_assert_uint_eq(index, 0);
    ck_assert(base_parse_word("UCX", words, &index));
    ck_assert_uint_eq(index, 2);
}

TEST(a_switch_accepts_many_words_for_yes_and_no)
{
    static const char *const yes[] = {"y", "Y", "yes", "on", "true", "1"};
    static const char *const no[]  = {"n", "N", "no", "off", "False", "0"};
    bool                     value;

    for (size_t i = 0; i < NUM(yes); i++) {
        value = false;
        ck_assert(base_parse_bool(yes[i], &value));
        ck_assert(value);
        ck_assert(base_parse_bool(no[i], &value));
        ck_assert(!value);
    }
    ck_assert(!base_parse_bool("", &value));
    ck_assert(!base_parse_bool("try", &value));
    ck_assert(!base_parse_bool("2", &value));
}

TEST(sizes_are_printed_in_the_shortest_exact_form)
{
    static const example_t examples[] = {
        {"0", 0},
        {"1", 1},
        {"1023", 1023},
        {"1k", 1024},
        {"1025", 1025},
        {"12k", 12288},
        {"4m", 4194304},
        {"1536m", UINT64_C(1610612736)},
        {"2g", UINT64_C(2147483648)},
        {"1t", UINT64_C(1) << 40},
        {"auto", SIZE_MAX},
        {"inf", SIZE_MAX - 1},
        {"18446744073709551613", SIZE_MAX - 2},
    };

    for (size_t i = 0; i < NUM(examples); i++) {
        char text[BASE_FORMAT_SIZE];

        base_format_size(examples[i].value, text);
        ck_assert_str_eq(text, examples[i].text);
    }
    check_sizes(examples, NUM(examples));
}

TEST(times_are_printed_in_the_shortest_exact_form)
{
    static const example_t examples[] = {
        {"0", 0},
        {"1ns", 1},
        {"20us", 20000},
        {"1500us", 1500000},
        {"5s", UINT64_C(5000000000)},
        {"90s", UINT64_C(90000000000)},
        {"2m", UINT64_C(120000000000)},
        {"1h", UINT64_C(3600000000000)},
        {"inf", UINT64_MAX},
        {"18446744073709551614ns", UINT64_MAX - 1},
    };

    for (size_t i = 0; i < NUM(examples); i++) {
        char text[BASE_FORMAT_SIZE];

        base_format_time(examples[i].value, text);
        ck_assert_str_eq(text, examples[i].text);
    }
    check_times(examples, NUM(examples));
}

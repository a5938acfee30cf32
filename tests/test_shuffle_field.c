/* The key field of a record. */
#include "tools/shuffle/csv.h"
#include "tools/shuffle/field.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

/* The field as text, or NULL where there is none. */
static const char *find(int delimiter, unsigned number, const char *record)
{
    static char  text[64];
    field_rule_t rule = {delimiter, number};
    field_key_t  key;

    if (!field_find(&rule, record, strlen(record), &key)) {
        return NULL;
    }
    if (key.is_raw) {
        key.length = csv_value(&key, text);
    } else {
        memcpy(text, key.data, key.length);
    }
    text[key.length] = '\0';
    return text;
}

START_TEST(fields_are_counted_from_1)
{
    ck_assert_str_eq(find('|', 1, "a|bc|d"), "a");
    ck_assert_str_eq(find('|', 2, "a|bc|d"), "bc");
    ck_assert_str_eq(find('|', 3, "a|bc|d"), "d");
    ck_assert_ptr_null(find('|', 4, "a|bc|d"));
}
END_TEST

START_TEST(a_field_may_be_empty)
{
    ck_assert_str_eq(find(',', 1, ",b"), "");
    ck_assert_str_eq(find(',', 2, "a,,c"), "");
    ck_assert_str_eq(find(',', 2, "a,"), "");
}
END_TEST

START_TEST(an_empty_record_has_one_empty_field)
{
    ck_assert_str_eq(find(',', 1, ""), "");
    ck_assert_ptr_null(find(',', 2, ""));
}
END_TEST

START_TEST(runs_of_blanks_part_fields)
{
    ck_assert_str_eq(find(FIELD_BLANKS, 1, " \t a \t b"), "a");
    ck_assert_str_eq(find(FIELD_BLANKS, 2, " \t a \t b"), "b");
    ck_assert_str_eq(find(FIELD_BLANKS, 2, "a b  "), "b");
    ck_assert_ptr_null(find(FIELD_BLANKS, 3, "a b  "));
}
END_TEST

START_TEST(between_blanks_an_empty_record_has_no_field)
{
    ck_assert_ptr_null(find(FIELD_BLANKS, 1, ""));
    ck_assert_ptr_null(find(FIELD_BLANKS, 1, " \t "));
}
END_TEST

START_TEST(a_key_may_hold_nul_bytes)
{
    field_rule_t rule = {',', 2};
    field_key_t  key;

    ck_assert(field_find(&rule, "a,\0b\0,c", 7, &key));
    ck_assert_uint_eq(key.length, 3);
    ck_assert_int_eq(memcmp(key.data, "\0b\0", 3), 0);
}
END_TEST

START_TEST(a_quoted_field_is_its_value)
{
    const char *record   = "a,\"b, c\",\"5\"\" disk\",\"\",x \"y\" z,\"p\"q\r";
    const char *values[] = {"a", "b, c", "5\" disk", "", "x \"y\" z", "pq"};

    for (unsigned i = 0; i < 6; i++) {
        ck_assert_str_eq(find(FIELD_CSV, i + 1, record), values[i]);
    }
    ck_assert_ptr_null(find(FIELD_CSV, 7, record));
    ck_assert_str_eq(find(FIELD_CSV, 1, "\"two\nlines\",x"), "two\nlines");
    ck_assert_str_eq(find(FIELD_CSV, 2, ","), "");
    ck_assert_str_eq(find(FIELD_CSV, 1, ""), "");
    ck_assert_str_eq(find(FIELD_CSV, 1, "\"\"\"\""), "\"");
}
END_TEST

START_TEST(quotes_are_characters_with_a_plain_comma)
{
    ck_assert_str_eq(find(',', 1, "\"a,b\""), "\"a");
}
END_TEST

/* However the text is cut, the same records end at the same places. */
START_TEST(records_end_outside_quotes)
{
    const char *text = "a,\"b\nc\",\"\"\"\n\"\n5\" x,\"\"\nd\"e,\n\"f\"\n";
    size_t      ends[8];
    size_t      length = strlen(text);
    csv_state_t state  = CSV_START;
    size_t      at     = 0;
    unsigned    num    = 0;
    size_t      got;

    while ((got = csv_record_end(&state, text + at, length - at)) > 0) {
        at += got;
        ends[num++] = at;
    }
    ck_assert_uint_eq(num, 4);
    ck_assert_uint_eq(ends[0], 14);
    ck_assert_uint_eq(at, length);
    for (size_t cut = 0; cut <= length; cut++) {
        state = csv_scan(CSV_START, text, cut);
        got   = csv_record_end(&state, text + cut, length - cut);
        for (num = 0; (cut < length) && (ends[num] <= cut); num++) {
        }
        ck_assert_uint_eq(got, cut < length ? ends[num] - cut : 0);
    }
}
END_TEST

START_TEST(a_delimiter_may_be_a_byte_above_127)
{
    ck_assert_str_eq(find(field_delimiter_parse("\xa7"), 2, "a\xa7z"), "z");
}
END_TEST

START_TEST(delimiters_are_one_character_or_a_word)
{
    ck_assert_int_eq(field_delimiter_parse("|"), '|');
    ck_assert_int_eq(field_delimiter_parse("tab"), '\t');
    ck_assert_int_eq(field_delimiter_parse("blank"), FIELD_BLANKS);
    ck_assert_int_eq(field_delimiter_parse(""), FIELD_UNKNOWN);
    ck_assert_int_eq(field_delimiter_parse("||"), FIELD_UNKNOWN);
    ck_assert_int_eq(field_delimiter_parse("\n"), FIELD_UNKNOWN);
}
END_TEST

START_TEST(the_suffix_suggests_a_delimiter)
{
    ck_assert_int_eq(field_delimiter_guess("a.d/lineitem.tbl"), '|');
    ck_assert_int_eq(field_delimiter_guess("x.csv"), FIELD_CSV);
    ck_assert_int_eq(field_delimiter_guess("x.tsv"), '\t');
    ck_assert_int_eq(field_delimiter_guess("/etc/passwd"), ':');
    ck_assert_int_eq(field_delimiter_guess("x.txt"), FIELD_BLANKS);
    ck_assert_int_eq(field_delimiter_guess("a.csv/x"), FIELD_UNKNOWN);
    ck_assert_int_eq(field_delimiter_guess("x.csv.gz"), FIELD_UNKNOWN);
}
END_TEST

int main(void)
{
    Suite   *suite = suite_create("shuffle field");
    TCase   *tcase = tcase_create("field");
    SRunner *runner;
    int      num_failed;

    tcase_add_test(tcase, fields_are_counted_from_1);
    tcase_add_test(tcase, a_field_may_be_empty);
    tcase_add_test(tcase, an_empty_record_has_one_empty_field);
    tcase_add_test(tcase, runs_of_blanks_part_fields);
    tcase_add_test(tcase, between_blanks_an_empty_record_has_no_field);
    tcase_add_test(tcase, a_key_may_hold_nul_bytes);
    tcase_add_test(tcase, a_quoted_field_is_its_value);
    tcase_add_test(tcase, quotes_are_characters_with_a_plain_comma);
    tcase_add_test(tcase, records_end_outside_quotes);
    tcase_add_test(tcase, a_delimiter_may_be_a_byte_above_127);
    tcase_add_test(tcase, delimiters_are_one_character_or_a_word);
    tcase_add_test(tcase, the_suffix_suggests_a_delimiter);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    num_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return num_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

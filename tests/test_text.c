/* Helpers for text. */
#include "base/text.h"
#include "test.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

TEST(control_characters_become_question_marks)
{
    char text[] = "a\nb\033[31m\tc\x7f";

    base_text_clean(text);
    ck_assert_str_eq(text, "a?b?[31m?c?");
}

TEST(non_ascii_letters_are_kept)
{
    char text[] = "gr\xc3\xbc\xc3\x9f";

    base_text_clean(text);
    ck_assert_str_eq(text, "gr\xc3\xbc\xc3\x9f");
}

/* U+009B starts a terminal control sequence, as ESC [ does. */
TEST(non_ascii_control_characters_become_question_marks)
{
    char utf8[]  = "a\xc2\x9b"
                   "31mb\xc2\x80\xc2\xa0";
    char byte[]  = "a\x9b"
                   "31mb\x80\xa0\xfc";
    char inner[] = "\xe2\x82\xac\xc3\x9b\xf0\x9f\x98\x80";
    char cut[]   = "a\xe2\x9b";

    base_text_clean(utf8);
    ck_assert_str_eq(utf8, "a??31mb??\xc2\xa0");
    base_text_clean(byte);
    ck_assert_str_eq(byte, "a?31mb?\xa0\xfc");
    base_text_clean(inner);
    ck_assert_str_eq(inner, "\xe2\x82\xac\xc3\x9b\xf0\x9f\x98\x80");
    base_text_clean(cut);
    ck_assert_str_eq(cut, "a\xe2?");
}

TEST(equal_texts_have_distance_0_in_any_case)
{
    ck_assert_uint_eq(base_text_distance("", ""), 0);
    ck_assert_uint_eq(base_text_distance("BLOCK_SIZE", "block_size"), 0);
}

TEST(one_typo_has_distance_1)
{
    ck_assert_uint_eq(base_text_distance("DEPTH", "DEPTS"), 1);
    ck_assert_uint_eq(base_text_distance("DEPTH", "DEPH"), 1);
    ck_assert_uint_eq(base_text_distance("DEPTH", "DEEPTH"), 1);
    ck_assert_uint_eq(base_text_distance("DEPTH", "DETPH"), 1);
}

TEST(distance_counts_every_typo)
{
    ck_assert_uint_eq(base_text_distance("", "WIRE"), 4);
    ck_assert_uint_eq(base_text_distance("WIRE", ""), 4);
    ck_assert_uint_eq(base_text_distance("kitten", "sitting"), 3);
    ck_assert_uint_eq(base_text_distance("WIRE", "SPIN"), 4);
}

TEST(a_text_that_is_too_long_matches_nothing)
{
    char longest[BASE_TEXT_DISTANCE_MAX + 1];
    char longer[BASE_TEXT_DISTANCE_MAX + 2];

    memset(longest, 'a', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    memset(longer, 'a', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';

    ck_assert_uint_eq(base_text_distance(longest, longest), 0);
    ck_assert_uint_eq(base_text_distance(longest, longer), SIZE_MAX);
    ck_assert_uint_eq(base_text_distance(longer, longest), SIZE_MAX);
}

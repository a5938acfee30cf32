/* Helpers for text. */
#include "base/text.h"
#include "test.h"

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

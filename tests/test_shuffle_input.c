/* Input: parts of files, split at the ends of records, and key fields. */
#include "tools/shuffle/input.h"

#include "common/error.h"
#include "test.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MAX_FILES 4

static char     paths[MAX_FILES][64];
static inputs_t inputs;

/* Data read from all parts, concatenated. */
static char     output[1 << 16];
static size_t   output_length;
static uint64_t num_added;

static void write_file(unsigned index, const char *data, size_t length)
{
    FILE *file;

    snprintf(paths[index], sizeof(paths[index]), "input-%ld-%u.txt",
             (long)getpid(), index);
    file = fopen(paths[index], "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(data, 1, length, file), length);
    fclose(file);
}

static int delimiter = ',';

static void open_inputs(unsigned num_files)
{
    char *names[MAX_FILES];

    for (unsigned i = 0; i < num_files; i++) {
        names[i] = paths[i];
    }
    ck_assert_int_eq(inputs_init(&inputs, names, num_files, delimiter), 0);
}

static void write_texts(const char *const *texts, unsigned num_texts)
{
    for (unsigned i = 0; i < num_texts; i++) {
        write_file(i, texts[i], strlen(texts[i]));
    }
    open_inputs(num_texts);
}

static void cleanup(void)
{
    inputs_cleanup(&inputs);
    for (unsigned i = 0; i < MAX_FILES; i++) {
        if (paths[i][0] != '\0') {
            unlink(paths[i]);
        }
    }
}

/* Read one part, and require that each record ends with its newline. */
static int read_part(unsigned part, unsigned num_parts, size_t buffer_size)
{
    reader_t reader;
    record_t record;
    int      result;

    reader_init(&reader, &inputs, inputs_begin(&inputs, part, num_parts),
                inputs_begin(&inputs, part + 1, num_parts), 1, buffer_size);
    while ((result = reader_next(&reader, &record)) > 0) {
        if (record.length == 0) {
            continue;
        }
        ck_assert_int_eq(record.data[record.length - 1], '\n');
        ck_assert_uint_le(output_length + record.length, sizeof(output));
        memcpy(output + output_length, record.data, record.length);
        output_length += record.length;
    }
    num_added += reader.num_added;
    reader_cleanup(&reader);
    return result;
}

/* Every record occurs once, for any number of parts and any buffer size. */
static void require(const char *expected, size_t length, uint64_t added)
{
    for (unsigned num_parts = 1; num_parts < 40; num_parts++) {
        for (size_t size = 2; size < 40; size = size * 2 - 1) {
            output_length = 0;
            num_added     = 0;
            for (unsigned i = 0; i < num_parts; i++) {
                ck_assert_int_eq(read_part(i, num_parts, size), 0);
            }
            ck_assert_uint_eq(output_length, length);
            ck_assert_int_eq(memcmp(output, expected, length), 0);
            ck_assert_uint_eq(num_added, added);
        }
    }
}

TEST_SETTINGS(.teardown = cleanup, .timeout = 120);

TEST(every_record_is_in_one_part)
{
    const char *text = "a\nbb\n\nccc\n\n\ndddddddddddddddddddddd\ne\n";

    write_texts(&text, 1);
    require(text, strlen(text), 0);
}

TEST(a_last_line_without_newline_gets_one)
{
    const char *text = "aa\nbb";

    write_texts(&text, 1);
    require("aa\nbb\n", 6, 1);
}

TEST(records_do_not_span_files)
{
    const char *texts[] = {"aa\nb", "", "c\nd", "\ne\n"};

    write_texts(texts, 4);
    require("aa\nb\nc\nd\n\ne\n", 12, 2);
}

TEST(empty_files_have_no_records)
{
    const char *texts[] = {"", "", ""};

    write_texts(texts, 3);
    require("", 0, 0);
}

TEST(a_record_may_hold_nul_bytes)
{
    write_file(0, "a\0b\n\0\n\0", 7);
    open_inputs(1);
    require("a\0b\n\0\n\0\n", 8, 1);
}

TEST(a_record_may_be_longer_than_parts_and_buffer)
{
    static char text[2000];

    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = '\n';
    text[10]               = '\n';
    write_file(0, text, sizeof(text));
    open_inputs(1);
    require(text, sizeof(text), 0);
}

TEST(a_record_has_its_position_and_key)
{
    const char *texts[] = {"aa\n", "bbb\ncc,\"d,\"\"\"\n"};
    reader_t    reader;
    record_t    record;

    delimiter = FIELD_CSV;
    write_texts(texts, 2);
    reader_init(&reader, &inputs, 4, inputs.size, 2, 64);
    do {
        ck_assert_int_eq(reader_next(&reader, &record), 1);
    } while (record.length == 0);
    ck_assert_str_eq(record.file->path, paths[1]);
    ck_assert_uint_eq(record.offset, 4);
    ck_assert_uint_eq(record.length, 10);
    ck_assert_uint_eq(record.key_length, 3);
    ck_assert_mem_eq(record.key, "d,\"", 3);
    ck_assert_int_eq(reader_next(&reader, &record), 0);
    reader_cleanup(&reader);
}

TEST(a_record_without_the_key_is_an_error_with_its_position)
{
    const char *text = "a,b\nc\n";
    reader_t    reader;
    record_t    record;

    write_texts(&text, 1);
    reader_init(&reader, &inputs, 0, inputs.size, 2, 64);
    ck_assert_int_eq(reader_next(&reader, &record), 1);
    ck_assert_int_eq(reader_next(&reader, &record), -1);
    assert_has(kept_error(), "at byte 4 of");
    assert_has(kept_error(), "begins with 'c'");
    reader_cleanup(&reader);
}

TEST(quoted_newlines_do_not_end_a_record)
{
    const char *texts[] = {"a,\"b\nc\nd\"\n\"\n\n\"\"\n\",x\ny\"\n\nz,\"\n\"",
                           "1\n\"2\n\n\n\n\n\n\n\n\n\n\n\n2\",2\n3\n"};

    delimiter = FIELD_CSV;
    write_texts(texts, 2);
    require("a,\"b\nc\nd\"\n\"\n\n\"\"\n\",x\ny\"\n\nz,\"\n\"\n"
            "1\n\"2\n\n\n\n\n\n\n\n\n\n\n\n2\",2\n3\n",
            strlen(texts[0]) + 1 + strlen(texts[1]), 1);
}

TEST(a_header_is_in_no_part)
{
    const char *texts[] = {"h,\"h\nh\"\na\nb\n", "", "h,\"h\nh\"\nc\n"};

    delimiter = FIELD_CSV;
    write_texts(texts, 3);
    ck_assert_int_eq(inputs_take_header(&inputs), 0);
    ck_assert_uint_eq(inputs.header_length, 8);
    require("a\nb\nc\n", 6, 0);
}

TEST(an_unclosed_quote_is_an_error_with_its_position)
{
    const char *text = "a\n\"b\nc\n";

    delimiter = FIELD_CSV;
    write_texts(&text, 1);
    ck_assert_int_eq(read_part(0, 1, 16), -1);
    assert_has(kept_error(), "begins at byte 2");
}

TEST(the_error_names_a_truncated_file)
{
    const char *text = "aaaaaaaa\nbbbbbbbb\n";

    write_texts(&text, 1);
    ck_assert_int_eq(truncate(paths[0], 5), 0);
    ck_assert_int_eq(read_part(0, 1, 4), -1);
    assert_has(kept_error(), paths[0]);
    assert_has(kept_error(), "cut short");
}

TEST(the_error_names_a_deleted_file)
{
    const char *text = "a\n";

    write_texts(&text, 1);
    unlink(paths[0]);
    ck_assert_int_eq(read_part(0, 1, 4), -1);
    assert_has(kept_error(), paths[0]);
}

TEST(a_directory_is_rejected_as_input)
{
    char *names[] = {"."};

    ck_assert_int_eq(inputs_init(&inputs, names, 1, ','), -1);
    assert_has(kept_error(), "directory");
}

TEST(a_missing_file_is_rejected_as_input)
{
    char *names[] = {"no such file"};

    ck_assert_int_eq(inputs_init(&inputs, names, 1, ','), -1);
    assert_has(kept_error(), "no such file");
}

TEST(a_file_of_unknown_suffix_needs_a_delimiter)
{
    const char *text    = "a\n";
    char       *names[] = {paths[0]};

    write_texts(&text, 1);
    inputs_cleanup(&inputs);
    rename(paths[0], "input.unknown");
    snprintf(paths[0], sizeof(paths[0]), "input.unknown");
    ck_assert_int_eq(inputs_init(&inputs, names, 1, FIELD_UNKNOWN), -1);
    assert_has(kept_error(), "-d");
}

/* The field as text, or NULL if the record has no such field. */
static const char *find(int which, unsigned number, const char *record)
{
    static char text[64];
    char        value[64];
    const char *key;
    size_t      length;

    if (!field_find(which, number, record, strlen(record), value, &key,
                    &length)) {
        return NULL;
    }
    memcpy(text, key, length);
    text[length] = '\0';
    return text;
}

TEST_SETTINGS(.timeout = 120);

TEST(fields_are_counted_from_1)
{
    ck_assert_str_eq(find('|', 1, "a|bc|d"), "a");
    ck_assert_str_eq(find('|', 2, "a|bc|d"), "bc");
    ck_assert_str_eq(find('|', 3, "a|bc|d"), "d");
    ck_assert_ptr_null(find('|', 4, "a|bc|d"));
}

TEST(a_field_may_be_empty)
{
    ck_assert_str_eq(find(',', 1, ",b"), "");
    ck_assert_str_eq(find(',', 2, "a,,c"), "");
    ck_assert_str_eq(find(',', 2, "a,"), "");
}

TEST(an_empty_record_has_one_empty_field)
{
    ck_assert_str_eq(find(',', 1, ""), "");
    ck_assert_ptr_null(find(',', 2, ""));
}

TEST(a_key_may_hold_nul_bytes)
{
    const char *key;
    size_t      length;

    ck_assert(field_find(',', 2, "a,\0b\0,c", 7, NULL, &key, &length));
    ck_assert_uint_eq(length, 3);
    ck_assert_mem_eq(key, "\0b\0", 3);
}

TEST(a_quoted_field_is_its_value)
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

TEST(quotes_are_ordinary_characters_with_a_plain_comma)
{
    ck_assert_str_eq(find(',', 1, "\"a,b\""), "\"a");
}

TEST(a_delimiter_may_be_a_byte_above_127)
{
    ck_assert_str_eq(find(field_delimiter_parse("\xa7"), 2, "a\xa7z"), "z");
}

TEST(delimiters_are_one_character_or_a_word)
{
    ck_assert_int_eq(field_delimiter_parse("|"), '|');
    ck_assert_int_eq(field_delimiter_parse("tab"), '\t');
    ck_assert_int_eq(field_delimiter_parse(""), FIELD_UNKNOWN);
    ck_assert_int_eq(field_delimiter_parse("||"), FIELD_UNKNOWN);
    ck_assert_int_eq(field_delimiter_parse("\n"), FIELD_UNKNOWN);
}

TEST(the_suffix_suggests_a_delimiter)
{
    ck_assert_int_eq(field_delimiter_guess("a.d/lineitem.tbl"), '|');
    ck_assert_int_eq(field_delimiter_guess("x.csv"), FIELD_CSV);
    ck_assert_int_eq(field_delimiter_guess("x.tsv"), '\t');
    ck_assert_int_eq(field_delimiter_guess("x.txt"), FIELD_UNKNOWN);
    ck_assert_int_eq(field_delimiter_guess("a.csv/x"), FIELD_UNKNOWN);
    ck_assert_int_eq(field_delimiter_guess("x.csv.gz"), FIELD_UNKNOWN);
}

/* Settings: environment, checks across keys, printing. */
#include "base/key.h"
#include "base/log.h"
#include "caught.h"
#include "config_fixture.h"
#include "test.h"
#include "replace.h"

#include <ucxpool/ucxpool.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

/* The linker redirects the library's calloc() and realloc() here: the n-th call
 * fails. */
static int calls_until_failure;

static bool fails_now(void)
{
    return (calls_until_failure > 0) && (--calls_until_failure == 0);
}

REPLACE(void *, calloc, size_t num, size_t size)
{
    return fails_now() ? NULL : __real_calloc(num, size);
}

REPLACE(void *, realloc, void *memory, size_t size)
{
    return fails_now() ? NULL : __real_realloc(memory, size);
}

static void assert_read_refused(void)
{
    ucxpool_config_t *untouched = (ucxpool_config_t *)&config;
    ucxpool_config_t *read      = untouched;

    assert_error(ucxpool_config_read(&read), INVALID_PARAM);
    ck_assert_ptr_eq(read, untouched);
}

/* The printed settings; the caller frees them. */
static char *printed(unsigned flags)
{
    char *text = ucxpool_config_string(config, flags);

    ck_assert_ptr_nonnull(text);
    return text;
}

TEST_SETTINGS(.setup = read_config, .teardown = release_config);

TEST(environment_sets_values)
{
    ucxpool_config_t *read;

    setenv("UCXPOOL_BLOCK_SIZE", "8m", 1);
    setenv("UCXPOOL_WIRE", "ucx", 1);
    setenv("UCXPOOL_SECRET_FILE", "", 1);
    assert_ok(ucxpool_config_read(&read));
    ck_assert_uint_eq(values_of(read)->block_size, 8 * MIB);
    ck_assert_int_eq(values_of(read)->wire, BASE_WIRE_UCX);
    ck_assert_str_eq(values_of(read)->secret_file, "");
    ucxpool_config_release(read);
}

TEST(bad_value_in_the_environment_is_rejected)
{
    setenv("UCXPOOL_SPIN", "20", 1);
    assert_read_refused();
    assert_detail("UCXPOOL_SPIN=20 ");
    assert_detail("10us");
}

TEST(empty_value_in_the_environment_is_rejected)
{
    setenv("UCXPOOL_DEPTH", "", 1);
    assert_read_refused();
    assert_detail("UCXPOOL_DEPTH=");
}

/* Read the settings from the current environment; returns what was written to
 * stderr. */
static const char *reported_by_read(unsigned num_reads)
{
    ucxpool_config_t *read;

    base_log_set_level(BASE_LOG_WARN);
    for (unsigned i = 0; i < num_reads; i++) {
        assert_ok(ucxpool_config_read(&read));
        ucxpool_config_release(read);
    }
    return caught_text();
}

/* Needs a process that has not read settings yet. */
static void begin_of_process(void)
{
    clear_environment();
    caught_begin();
}

TEST_SETTINGS(.setup = begin_of_process, .teardown = caught_end);

TEST(an_unknown_variable_is_a_warning)
{
    char expected[128];

    setenv("UCXPOOL_COM_SIZE", "8m", 1);
    snprintf(expected, sizeof(expected),
             "ucxpool[%d] WARN: UCXPOOL_COM_SIZE is not a setting; "
             "ucxpool_info -c prints all settings\n",
             (int)getpid());
    ck_assert_str_eq(reported_by_read(3), expected);
}

TEST(each_unknown_variable_is_reported)
{
    const char *text;

    setenv("UCXPOOL_DEPT", "1", 1);
    setenv("UCXPOOL_BLOCKSIZE", "1", 1);
    text = reported_by_read(1);
    assert_has(text, "UCXPOOL_DEPT is not");
    assert_has(text, "UCXPOOL_BLOCKSIZE is not");
}

TEST(variables_of_libraries_are_ignored)
{
    setenv("UCXPOOL_CUDA_DRIVER", "/nonexistent", 1);
    setenv("UCXPOOL_NVML_LIBRARY", "/nonexistent", 1);
    setenv("UCXPOOL_VERBS_LIBRARY", "/nonexistent", 1);
    ck_assert_str_eq(reported_by_read(1), "");
}

TEST(an_unknown_variable_may_have_any_length)
{
    char name[1000] = "UCXPOOL_";

    memset(name + strlen(name), 'X', sizeof(name) - 1 - strlen(name));
    setenv(name, "1", 1);
    assert_has(reported_by_read(1), "WARN: UCXPOOL_XXX");
}

TEST(variables_without_the_prefix_are_ignored)
{
    setenv("UCX_NO_SUCH", "1", 1);
    setenv("UCXPOOLX", "1", 1);
    ck_assert_str_eq(reported_by_read(1), "");
}

TEST_SETTINGS(.setup = read_config, .teardown = release_config);

TEST(the_environment_sets_the_log_level_at_once)
{
    ucxpool_config_t *read;

    setenv("UCXPOOL_LOG_LEVEL", "info", 1);
    assert_ok(ucxpool_config_read(&read));
    ck_assert_int_eq(base_log_get_level(), BASE_LOG_INFO);
    ucxpool_config_release(read);
}

TEST(explicit_log_level_is_kept)
{
    ucxpool_config_t *read;

    assert_ok(ucxpool_log_set_level(UCXPOOL_LOG_ERROR));
    setenv("UCXPOOL_LOG_LEVEL", "info", 1);
    assert_ok(ucxpool_config_read(&read));
    ck_assert_int_eq(base_log_get_level(), BASE_LOG_ERROR);
    ucxpool_config_release(read);
}

TEST(inconsistent_values_are_rejected_on_read)
{
    setenv("UCXPOOL_SEND_SHARE", "60", 1);
    setenv("UCXPOOL_RECV_SHARE", "41", 1);
    assert_read_refused();
    assert_detail("SEND_SHARE=60");
    assert_detail("RECV_SHARE=41");
    setenv("UCXPOOL_RECV_SHARE", "40", 1);
    ucxpool_config_release(config);
    assert_ok(ucxpool_config_read(&config));
}

TEST(modifications_work_in_any_order)
{
    /* Each value alone conflicts with the other's default. */
    set("SEND_SHARE", "90");
    set("RECV_SHARE", "10");
    set("REGION_SIZE", "12k");
    set("BLOCK_SIZE", "4k");
    assert_ok(base_config_check(values_of(config)));
}

static void assert_unfit(const char *first, const char *second)
{
    assert_error_detail(base_config_check(values_of(config)), INVALID_PARAM,
                        first);
    assert_detail(second);
}

TEST(a_region_is_a_multiple_of_a_block)
{
    set("BLOCK_SIZE", "4m");
    set("REGION_SIZE", "6m");
    assert_unfit("UCXPOOL_REGION_SIZE=6m", "UCXPOOL_BLOCK_SIZE=4m");
    set("REGION_SIZE", "2m");
    assert_unfit("UCXPOOL_REGION_SIZE=2m", "UCXPOOL_BLOCK_SIZE=4m");
    set("REGION_SIZE", "8m");
    assert_ok(base_config_check(values_of(config)));
}

TEST(pool_has_at_least_two_blocks)
{
    set("BLOCK_SIZE", "4m");
    set("COMM_SIZE", "8388607");
    assert_unfit("UCXPOOL_COMM_SIZE=8388607", "UCXPOOL_BLOCK_SIZE=4m");
    set("COMM_SIZE", "8m");
    assert_ok(base_config_check(values_of(config)));
}

TEST(a_region_is_not_larger_than_the_pool)
{
    set("COMM_SIZE", "64m");
    set("REGION_SIZE", "68m");
    assert_unfit("UCXPOOL_REGION_SIZE=68m", "UCXPOOL_COMM_SIZE=64m");
    set("REGION_SIZE", "64m");
    assert_ok(base_config_check(values_of(config)));
}

TEST(fragment_fits_in_one_block)
{
    set("BLOCK_SIZE", "4m");
    set("FRAG_SIZE", "4194305");
    assert_unfit("UCXPOOL_FRAG_SIZE=4194305", "UCXPOOL_BLOCK_SIZE=4m");
    set("FRAG_SIZE", "4m");
    assert_ok(base_config_check(values_of(config)));
}

static ucxpool_config_attr_t attr_of(const char *key)
{
    ucxpool_config_attr_t attr;

    assert_ok(ucxpool_config_query(config, key, &attr, sizeof(attr)));
    return attr;
}

TEST(a_setting_is_described)
{
    ucxpool_config_attr_t attr = attr_of("BLOCK_SIZE");

    ck_assert_str_eq(attr.key, "BLOCK_SIZE");
    ck_assert_str_eq(attr.value, "auto");
    ck_assert_str_eq(attr.default_value, "auto");
    ck_assert_int_eq(attr.source, UCXPOOL_CONFIG_SOURCE_DEFAULT);
    assert_has(attr.takes, "4k");
    assert_has(attr.doc, "block");
    set("BLOCK_SIZE", "8m");
    attr = attr_of("BLOCK_SIZE");
    ck_assert_str_eq(attr.value, "8m");
    ck_assert_int_eq(attr.source, UCXPOOL_CONFIG_SOURCE_MODIFY);
    ucxpool_config_release(config);
    setenv("UCXPOOL_WIRE", "map", 1);
    assert_ok(ucxpool_config_read(&config));
    ck_assert_str_eq(attr_of("WIRE").value, "map");
    ck_assert_int_eq(attr_of("WIRE").source, UCXPOOL_CONFIG_SOURCE_ENVIRONMENT);
}

TEST(every_key_is_described)
{
    size_t num = 0;

    for (const char *key; (key = ucxpool_config_key(num)) != NULL; num++) {
        ck_assert_str_eq(attr_of(key).key, key);
        ck_assert_str_eq(attr_of(key).value, attr_of(key).default_value);
    }
    ck_assert_uint_eq(num, BASE_NUM_KEYS);
}

TEST(an_unknown_key_is_not_described)
{
    ucxpool_config_attr_t attr = {.key = "untouched"};

    assert_error_detail(
        ucxpool_config_query(config, "BLOK_SIZE", &attr, sizeof(attr)),
        INVALID_PARAM, "BLOK_SIZE");
    ck_assert_str_eq(attr.key, "untouched");
}

TEST(errors_name_the_environment_variable)
{
    assert_refused("BLOCK_SIZE", "3");
    assert_detail("UCXPOOL_BLOCK_SIZE=3 is invalid");
    assert_error_detail(ucxpool_config_modify(config, "BLOK_SIZE", "1m"),
                        INVALID_PARAM, "unknown setting UCXPOOL_BLOK_SIZE");
    assert_error_detail(
        ucxpool_config_modify(config, "UCXPOOL_BLOCK_SIZE", "1m"),
        INVALID_PARAM,
        "unknown key UCXPOOL_BLOCK_SIZE: omit the prefix UCXPOOL_");
}

TEST(values_are_printed_one_per_line)
{
    char  *text = printed(UCXPOOL_CONFIG_PRINT_VALUES);
    size_t num  = 0;

    for (const char *at = text; *at != '\0'; at = strchr(at, '\n') + 1) {
        ck_assert_int_eq(strncmp(at, "UCXPOOL_", 8), 0);
        num++;
    }
    ck_assert_uint_eq(num, BASE_NUM_KEYS);
    assert_has(text, "UCXPOOL_BLOCK_SIZE=auto\n");
    assert_has(text, "UCXPOOL_SPIN=200us\n");
    assert_has(text, "UCXPOOL_SECRET_FILE=\n");
    ucxpool_string_free(text);
}

TEST(printed_values_can_be_read_back)
{
    char         *text, *line, *rest;
    base_config_t before;

    set("BLOCK_SIZE", "64k");
    set("WIRE", "map");
    set("SECRET_FILE", "/a b=c");
    before = *values_of(config);
    text   = printed(UCXPOOL_CONFIG_PRINT_VALUES);
    ucxpool_config_release(config);
    read_config();
    for (line = strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        char *value = strchr(line, '=');

        *value = '\0';
        set(line + strlen("UCXPOOL_"), value + 1);
    }
    ck_assert_mem_eq(values_of(config), &before, sizeof(before));
    ucxpool_string_free(text);
}

TEST(a_value_is_printed_with_its_source)
{
    char *text;

    setenv("UCXPOOL_DEPTH", "7", 1);
    ucxpool_config_release(config);
    assert_ok(ucxpool_config_read(&config));
    set("CREDITS", "9");

    text = printed(UCXPOOL_CONFIG_PRINT_VALUES | UCXPOOL_CONFIG_PRINT_SOURCE);
    assert_has(text, "# From: environment variable\n"
                     "UCXPOOL_DEPTH=7\n");
    assert_has(text, "# From: ucxpool_config_modify()\n"
                     "UCXPOOL_CREDITS=9\n");
    assert_has(text, "# From: default\nUCXPOOL_WIRE=auto\n");
    ucxpool_string_free(text);
}

TEST(print_includes_meaning_and_default)
{
    char *text =
        printed(UCXPOOL_CONFIG_PRINT_VALUES | UCXPOOL_CONFIG_PRINT_DOC |
                UCXPOOL_CONFIG_PRINT_DEFAULT);

    assert_has(text, "# Default: 256\nUCXPOOL_CREDITS=256\n");
    assert_has(text, "# Takes: one of none, crc32c\n");
    ck_assert_ptr_null(strstr(text, "# From:"));
    for (char *at = text; *at != '\0'; at = strchr(at, '\n') + 1) {
        ck_assert_int_lt(strchr(at, '\n') - at, 80);
    }
    ucxpool_string_free(text);
}

TEST(a_value_cannot_break_the_printed_line)
{
    char *text;

    set("SECRET_FILE", "/a\nUCXPOOL_DEPTH=9");
    text = printed(UCXPOOL_CONFIG_PRINT_VALUES);
    assert_has(text, "UCXPOOL_SECRET_FILE=/a?UCXPOOL_DEPTH=9\n");
    ucxpool_string_free(text);
}

TEST_EACH(print_writes_the_text_of_the_string, 16)
{
    char  *text = printed((unsigned)_i);
    char  *written;
    size_t size;
    FILE  *stream = open_memstream(&written, &size);

    ck_assert_ptr_nonnull(stream);
    ucxpool_config_print(config, stream, (unsigned)_i);
    fclose(stream);
    ck_assert_str_eq(written, text);
    free(written);
    ucxpool_string_free(text);
}

TEST(string_is_null_if_memory_runs_out)
{
    int num_failed = 0;

    for (calls_until_failure = 1;; calls_until_failure = num_failed + 1) {
        char *text = ucxpool_config_string(config, UCXPOOL_CONFIG_PRINT_DOC);

        if (text != NULL) {
            calls_until_failure = 0;
            ucxpool_string_free(text);
            break;
        }
        ck_assert_int_eq(calls_until_failure, 0);
        assert_detail("no memory for a string");
        num_failed++;
    }
    ck_assert_int_ge(num_failed, 3);
}

TEST(allocation_failure_is_reported_and_retry_works)
{
    ucxpool_config_t *untouched = (ucxpool_config_t *)&config;
    ucxpool_config_t *read      = untouched;

    calls_until_failure = 1;
    assert_error(ucxpool_config_read(&read), NO_MEMORY);
    ck_assert_ptr_eq(read, untouched);
    assert_detail("memory");
    assert_ok(ucxpool_config_read(&read));
    ucxpool_config_release(read);
}

TEST(release_takes_null)
{
    ucxpool_config_release(NULL);
}

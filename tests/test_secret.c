/* The secret file: its permissions and length, and the signatures made
 * with it. */
/* Before test.h, which defines a macro fail(). */
#include "bootstrap/auth.c"

#include "fds.h"
#include "net_calls.h"
#include "test.h"

#include "base/log.h"
#include "base/config.h"

#include <ucxpool/ucxpool.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char           dir[] = "/tmp/test_secret_XXXXXX";
static char           path[64];
static base_secret_t *secret;

static void setup(void)
{
    base_log_set_level(BASE_LOG_NONE);
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/secret", dir);
    secret = NULL;
}

static void teardown(void)
{
    char link_path[80];

    net_call_reset();
    base_secret_put(secret);
    snprintf(link_path, sizeof(link_path), "%s.link", path);
    unlink(link_path);
    unlink(path);
    rmdir(path);
    rmdir(dir);
}

static void write_file(const void *bytes, size_t length, mode_t mode)
{
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, bytes, length), (ssize_t)length);
    ck_assert_int_eq(fchmod(fd, mode), 0);
    close(fd);
}

static void write_letters(size_t num_letters, const char *end)
{
    char bytes[BASE_SECRET_MAX + 8];

    memset(bytes, 'x', num_letters);
    memcpy(bytes + num_letters, end, strlen(end));
    write_file(bytes, num_letters + strlen(end), 0600);
}

static void assert_read(void)
{
    assert_ok(base_secret_read(path, &secret));
    ck_assert_ptr_nonnull(secret);
}

static void assert_refused(ucxpool_status_t status, const char *words)
{
    ck_assert_int_eq(base_secret_read(path, &secret), status);
    ck_assert_ptr_null(secret);
    assert_detail(words);
    assert_detail(path);
}

static void assert_signs(const char *data, const char *expected)
{
    uint8_t mac[BOOTSTRAP_MAC_SIZE];
    char    hex[2 * BOOTSTRAP_MAC_SIZE + 1];

    assert_ok(sign(secret, data, strlen(data), mac));
    for (size_t i = 0; i < sizeof(mac); i++) {
        snprintf(hex + (2 * i), 3, "%02x", mac[i]);
    }
    ck_assert_str_eq(hex, expected);
}

TEST_SETTINGS(.setup = setup, .teardown = teardown);

/* RFC 4231, test case 1. */
TEST(a_secret_signs_as_the_standard_says)
{
    uint8_t bytes[20];

    memset(bytes, 0x0b, sizeof(bytes));
    write_file(bytes, sizeof(bytes), 0600);
    assert_read();
    assert_signs(
        "Hi There",
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
}

/* Takes the settings: a secret from memory, and a file that does not exist. */
static void take_from(const void *bytes, size_t length)
{
    base_config_t config = {.secret_file = "/nonexistent/secret"};

    assert_ok(base_secret_create(bytes, length, &config.secret));
    assert_ok(base_config_secret(&config, &secret));
    base_secret_put(config.secret);
}

/* In a file, or in memory. */
TEST_EACH(the_newline_at_the_end_is_not_part_of_the_secret, 2)
{
    static const char *const ends[] = {"", "\n", "\r\n"};
    uint8_t                  bytes[22];

    memset(bytes, 0x0b, 20);
    for (size_t i = 0; i < 3; i++) {
        memcpy(bytes + 20, ends[i], strlen(ends[i]));
        if (_i == 0) {
            write_file(bytes, 20 + strlen(ends[i]), 0600);
            assert_read();
        } else {
            take_from(bytes, 20 + strlen(ends[i]));
        }
        assert_signs("Hi There", "b0344c61d8db38535ca8afceaf0bf12b"
                                 "881dc200c9833da726e9376c2e32cff7");
        base_secret_put(secret);
        secret = NULL;
    }
}

TEST(the_file_is_used_if_no_secret_is_in_memory)
{
    base_config_t config = {.secret = NULL};

    write_letters(BASE_SECRET_MIN, "");
    strcpy(config.secret_file, path);
    assert_ok(base_config_secret(&config, &secret));
    ck_assert_ptr_nonnull(secret);
}

TEST(a_secret_in_memory_has_the_length_limits_of_a_file)
{
    static const char letters[BASE_SECRET_MAX + 2] = {'x'};
    base_secret_t    *given                        = NULL;

    assert_error_detail(
        base_secret_create(letters, BASE_SECRET_MIN - 1, &given), INVALID_PARAM,
        "a secret of 15 bytes");
    assert_error(base_secret_create("0123456789abcde\n", 16, &given),
                 INVALID_PARAM);
    assert_error_detail(
        base_secret_create(letters, BASE_SECRET_MAX + 1, &given), INVALID_PARAM,
        "16 to 4096");
    ck_assert_ptr_null(given);
    take_from(letters, BASE_SECRET_MAX);
    base_secret_put(secret);
    take_from(letters, BASE_SECRET_MIN);
}

TEST(without_a_secret_the_key_is_empty)
{
    assert_ok(base_secret_read("", &secret));
    ck_assert_ptr_null(secret);
    assert_signs(
        "", "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
    base_secret_put(NULL);
}

TEST(a_signature_without_libcrypto_is_an_error)
{
    uint8_t mac[BOOTSTRAP_MAC_SIZE];

    net_call_fail(NET_CALL_HMAC, 1, 0);
    assert_error(sign(NULL, "", 0, mac), IO);
}

TEST(a_file_with_group_or_other_permissions_is_rejected)
{
    static const mode_t modes[] = {0640, 0620, 0610, 0604, 0602, 0601, 0644};

    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        write_file("0123456789abcdef", 16, modes[i]);
        assert_refused(UCXPOOL_ERR_PERMISSION, "chmod 600 ");
    }
    write_file("0123456789abcdef", 16, 0400);
    assert_read();
}

TEST(a_file_of_another_user_is_rejected)
{
    write_file("0123456789abcdef", 16, 0600);
    /* Only root can create such a file and read it. */
    if ((geteuid() == 0) && (chown(path, 12345, 12345) == 0)) {
        assert_refused(UCXPOOL_ERR_PERMISSION, "belongs to user 12345");
        ck_assert_int_eq(chown(path, 0, 0), 0);
    }
    assert_read();
}

TEST(the_target_of_a_link_is_checked)
{
    char link_path[80];

    snprintf(link_path, sizeof(link_path), "%s.link", path);
    write_file("0123456789abcdef", 16, 0644);
    ck_assert_int_eq(symlink(path, link_path), 0);
    assert_error(base_secret_read(link_path, &secret), PERMISSION);
    ck_assert_int_eq(chmod(path, 0600), 0);
    assert_ok(base_secret_read(link_path, &secret));
}

TEST(a_file_that_is_not_regular_is_rejected_without_blocking)
{
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    assert_refused(UCXPOOL_ERR_INVALID_PARAM, "not a regular file");
    unlink(path);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    assert_refused(UCXPOOL_ERR_INVALID_PARAM, "not a regular file");
}

TEST(the_error_names_a_missing_file)
{
    assert_refused(UCXPOOL_ERR_PERMISSION, "No such file");
}

TEST(a_secret_has_16_to_4096_bytes)
{
    write_letters(0, "");
    assert_refused(UCXPOOL_ERR_INVALID_PARAM, "has 0 bytes");
    write_letters(0, "\r\n");
    assert_refused(UCXPOOL_ERR_INVALID_PARAM, "has 0 bytes");
    write_letters(15, "\n");
    assert_refused(UCXPOOL_ERR_INVALID_PARAM, "openssl rand -hex 32");
    write_letters(16, "\n");
    assert_read();
    base_secret_put(secret);
    write_letters(BASE_SECRET_MAX, "\r\n");
    assert_read();
    base_secret_put(secret);
    secret = NULL;
    write_letters(BASE_SECRET_MAX + 1, "");
    assert_refused(UCXPOOL_ERR_INVALID_PARAM, "more than 4096");
    write_letters(BASE_SECRET_MAX + 1, "\r\n");
    assert_refused(UCXPOOL_ERR_INVALID_PARAM, "more than 4096");
}

TEST(reading_the_secret_can_be_retried_after_a_failed_call)
{
    static const net_call_t calls[] = {NET_CALL_CALLOC, NET_CALL_FSTAT,
                                       NET_CALL_READ};
    unsigned                num_fds = fds_count();

    write_letters(20, "\n");
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        for (unsigned n = 1;; n++) {
            net_call_fail(calls[i], n, EIO);
            if (base_secret_read(path, &secret) == UCXPOOL_OK) {
                ck_assert(!net_call_reset());
                ck_assert_uint_gt(n, 1);
                base_secret_put(secret);
                secret = NULL;
                break;
            }
            ck_assert(net_call_reset());
            ck_assert_ptr_null(secret);
        }
    }
    ck_assert_uint_eq(fds_count(), num_fds);
}

TEST(an_interrupted_read_is_continued)
{
    write_letters(20, "\n");
    net_call_fail(NET_CALL_READ, 1, EINTR);
    assert_read();
    ck_assert(net_call_reset());
}

/* Two streams of TLS with nothing between them but memory: pieces of any size, refusals, exchanged certificates. */
#include "check.h"
#include "net/tls.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Signed by itself, for localhost and 127.0.0.1, until 2126. */
static const char cert[] = "-----BEGIN CERTIFICATE-----\n"
                           "MIIBmzCCAUGgAwIBAgIUT6agpgLodeXtfHYEEpNJhdeyqJkwCgYIKoZIzj0EAwIw\n"
                           "FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEzMDA4NDUyNloYDzIxMjYxMTA2\n"
                           "MDg0NTI2WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO\n"
                           "PQMBBwNCAASMBEroHASWkmSrsOvcvh4Nkk5smnpeZNeUs+QDmyxPUS2Fyw6F95tv\n"
                           "sLXCgmWZHGPUmh+ziz1M8Vf7sP4W39+co28wbTAdBgNVHQ4EFgQUDIFr9MxU4bgS\n"
                           "N43Zz5zZkq5HxaowHwYDVR0jBBgwFoAUDIFr9MxU4bgSN43Zz5zZkq5HxaowDwYD\n"
                           "VR0TAQH/BAUwAwEB/zAaBgNVHREEEzARgglsb2NhbGhvc3SHBH8AAAEwCgYIKoZI\n"
                           "zj0EAwIDSAAwRQIgNiwBuwBvdMm8z2usxr6DWlfok94fao7MNBn5WtxTWyACIQCW\n"
                           "AJuX/Op3kk8GuwR2PYinU6q39aZ6cMldPhHKv4bYuQ==\n"
                           "-----END CERTIFICATE-----\n";
static const char key[] = "-----BEGIN PRIVATE KEY-----\n"
                          "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgklntSEJXugiaFKCg\n"
                          "xyRiafHkji+b9EmGWN0/cPCwIH6hRANCAASMBEroHASWkmSrsOvcvh4Nkk5smnpe\n"
                          "ZNeUs+QDmyxPUS2Fyw6F95tvsLXCgmWZHGPUmh+ziz1M8Vf7sP4W39+c\n"
                          "-----END PRIVATE KEY-----\n";

static ss_tls_config server_config(void) {
    return (ss_tls_config){.is_server = true, .cert = cert, .key = key, .alpn = "h2", .min_version = 0x0303};
}

static ss_tls_config client_config(const char *name) {
    return (ss_tls_config){.ca = cert, .alpn = "h2", .server_name = name, .min_version = 0x0303};
}

static ss_tls *make(ss_tls_config config) {
    ss_error error;
    ss_tls *tls = ss_tls_new(&config, &error);
    CHECK(tls != NULL);
    return tls;
}

/* Feed what from has to say to to, in pieces; what it opens is appended to opened. */
static ss_status carry(ss_tls_stream *from, ss_tls_stream *to, size_t piece, ss_buffer *opened) {
    ss_buffer sealed = *ss_tls_stream_output(from);
    *ss_tls_stream_output(from) = (ss_buffer){0};
    ss_status status = SS_OK;
    for (size_t at = 0; at < sealed.length && status == SS_OK; at += piece) {
        size_t left = sealed.length - at, n_fed = left < piece ? left : piece;
        uint8_t *fed = malloc(n_fed); /* of this size, so that a read beyond is seen */
        memcpy(fed, sealed.data + at, n_fed);
        CHECK_EQUAL(SS_OK, ss_tls_stream_feed(to, fed, n_fed));
        uint8_t plain[1000];
        size_t n = sizeof plain;
        while (status == SS_OK && n == sizeof plain) {
            status = ss_tls_stream_read(to, plain, sizeof plain, &n);
            CHECK_EQUAL(SS_OK, ss_buffer_append(opened, plain, n));
        }
        free(fed);
    }
    ss_buffer_free(&sealed);
    return status;
}

/* Shake hands; returns the first status that is not SS_OK. */
static ss_status greet(ss_tls_stream *client, ss_tls_stream *server, size_t piece) {
    ss_buffer nothing = {0};
    size_t n;
    ss_status status = ss_tls_stream_read(client, NULL, 0, &n);
    for (int i = 0; i < 10 && status == SS_OK; i++) {
        status = carry(client, server, piece, &nothing);
        ss_status other = carry(server, client, piece, &nothing);
        status = status != SS_OK ? status : other;
    }
    (void)carry(client, server, piece, &nothing); /* an alert */
    CHECK_EQUAL(0, nothing.length);
    ss_buffer_free(&nothing);
    return status;
}

static void test_bytes_pass_in_any_pieces(void) {
    ss_tls *of_server = make(server_config()), *of_client = make(client_config("localhost"));
    const size_t pieces[] = {1, 7, 1000, 16384, 1 << 20};
    enum { LENGTH = 100000 };
    uint8_t *message = malloc(LENGTH);
    for (size_t i = 0; i < LENGTH; i++) {
        message[i] = (uint8_t)(i * 31);
    }
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        ss_tls_stream *server = ss_tls_stream_new(of_server), *client = ss_tls_stream_new(of_client);
        CHECK_EQUAL(SS_OK, greet(client, server, pieces[i]));
        CHECK(ss_tls_stream_is_ready(server) && ss_tls_stream_is_ready(client));
        ss_buffer opened = {0};
        CHECK_EQUAL(SS_OK, ss_tls_stream_write(client, message, LENGTH));
        CHECK_EQUAL(SS_OK, carry(client, server, pieces[i], &opened));
        CHECK_EQUAL(LENGTH, opened.length);
        CHECK(opened.length == LENGTH && memcmp(message, opened.data, LENGTH) == 0);
        ss_tls_stream_end(client);
        ss_tls_stream_end(client);
        CHECK_EQUAL(SS_ERR_CLOSED, carry(client, server, pieces[i], &opened));
        CHECK_EQUAL(0, strlen(ss_tls_stream_reason(server)));
        ss_buffer_free(&opened);
        ss_tls_stream_free(server);
        ss_tls_stream_free(client);
    }
    free(message);
    ss_tls_free(of_server);
    ss_tls_free(of_client);
}

static void test_other_names_and_authorities_are_refused(void) {
    const struct {
        const char *name, *ca;
        bool skips, is_taken;
        const char *reason;
    } cases[] = {
        {"localhost", cert, false, true, ""},
        {"127.0.0.1", cert, false, true, ""},
        {"other.example", cert, false, false,
         "failed to verify certificate: hostname mismatch, it is not valid for other.example"},
        {"127.0.0.2", cert, false, false,
         "failed to verify certificate: IP address mismatch, it is not valid for 127.0.0.2"},
        {"localhost", NULL, false, false, "failed to verify certificate: self-signed certificate"},
        {"other.example", NULL, true, true, ""},
    };
    ss_tls *of_server = make(server_config());
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ss_tls_config config = client_config(cases[i].name);
        config.ca = cases[i].ca;
        config.skips_verification = cases[i].skips;
        ss_tls *of_client = make(config);
        ss_tls_stream *server = ss_tls_stream_new(of_server), *client = ss_tls_stream_new(of_client);
        CHECK_EQUAL(cases[i].is_taken ? SS_OK : SS_ERR_IO, greet(client, server, 1 << 20));
        CHECK_EQUAL(0, strcmp(cases[i].reason, ss_tls_stream_reason(client)));
        ss_tls_stream_free(server);
        ss_tls_stream_free(client);
        ss_tls_free(of_client);
    }
    char text[256];
    CHECK_EQUAL(3, ss_tls_failures(of_server, text, sizeof text)); /* told by the clients' alerts */
    CHECK(strstr(text, "alert") != NULL);
    CHECK_EQUAL(3, ss_tls_failures(of_server, text, 1));
    CHECK_EQUAL(0, text[0]);
    ss_tls_free(of_server);
}

static void test_garbage_is_refused_for_good(void) {
    ss_tls *of_server = make(server_config());
    const char *const garbage[] = {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "\x16\x03\x01\xff\xff????", "\x15\x03\x03"};
    const ss_status expected[] = {SS_ERR_IO, SS_ERR_IO, SS_OK}; /* the last one may go on */
    for (size_t i = 0; i < sizeof garbage / sizeof garbage[0]; i++) {
        ss_tls_stream *server = ss_tls_stream_new(of_server);
        uint8_t plain[100];
        size_t n;
        CHECK_EQUAL(SS_OK, ss_tls_stream_feed(server, (const uint8_t *)garbage[i], strlen(garbage[i])));
        CHECK_EQUAL(expected[i], ss_tls_stream_read(server, plain, sizeof plain, &n));
        CHECK_EQUAL(expected[i], ss_tls_stream_read(server, plain, sizeof plain, &n));
        CHECK_EQUAL(0, n);
        CHECK(!ss_tls_stream_is_ready(server));
        ss_tls_stream_end(server);
        ss_tls_stream_free(server);
    }
    ss_tls_free(of_server);
}

static void test_what_cannot_be_used_is_told(void) {
    ss_error error;
    const struct {
        const char *cert, *key, *ciphers, *groups, *reason;
        const char *alpn;
    } cases[] = {
        {"", "", "", "", "", "h2"},
        {"none", key, "", "", "failed to find any PEM data in certificate input", "h2"},
        {cert, "none", "", "", "failed to parse private key", "h2"},
        {cert, key, "NONE", "", "OpenSSL knows none of the cipher suites", "h2"},
        {cert, key, "", "NONE", "OpenSSL does not know one of the curves", "h2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ss_tls_config config = {.is_server = true,
                                .cert = cases[i].cert,
                                .key = cases[i].key,
                                .ciphers = cases[i].ciphers,
                                .groups = cases[i].groups,
                                .alpn = cases[i].alpn};
        ss_tls *tls = ss_tls_new(&config, &error);
        CHECK_EQUAL(cases[i].reason[0] ? SS_ERR_ARGUMENT : SS_OK, error.code);
        CHECK(!cases[i].reason[0] || (error.reason && strcmp(cases[i].reason, error.reason) == 0));
        ss_tls_free(tls);
    }
    ss_tls_config long_name = server_config();
    long_name.alpn = "a-protocol-with-a-name-that-is-too-long";
    CHECK(ss_tls_new(&long_name, &error) == NULL);
    CHECK_EQUAL(SS_ERR_ARGUMENT, error.code);
    ss_tls_free(NULL);
    ss_tls_stream_free(NULL);
}

static void *exchange(void *argument) {
    ss_error error;
    for (int i = 0; i < 50; i++) {
        ss_tls_config config = server_config();
        CHECK_EQUAL(SS_OK, ss_tls_replace(argument, &config, &error));
        config.cert = "torn";
        CHECK_EQUAL(SS_ERR_ARGUMENT, ss_tls_replace(argument, &config, &error));
    }
    return NULL;
}

static void test_certificates_are_exchanged_meanwhile(void) {
    ss_tls *of_server = make(server_config()), *of_client = make(client_config("localhost"));
    pthread_t thread;
    CHECK_EQUAL(0, pthread_create(&thread, NULL, exchange, of_server));
    for (int i = 0; i < 50; i++) {
        ss_tls_stream *server = ss_tls_stream_new(of_server), *client = ss_tls_stream_new(of_client);
        CHECK_EQUAL(SS_OK, greet(client, server, 1 << 20));
        ss_tls_stream_free(server);
        ss_tls_stream_free(client);
    }
    pthread_join(thread, NULL);
    ss_tls_free(of_server);
    ss_tls_free(of_client);
}

int main(void) {
    test_bytes_pass_in_any_pieces();
    test_other_names_and_authorities_are_refused();
    test_garbage_is_refused_for_good();
    test_what_cannot_be_used_is_told();
    test_certificates_are_exchanged_meanwhile();
    return check_finish();
}

/* UTF-8: every character, every way to be none, at every distance from the ends that the fast paths know. */
#include <string.h>

#include "check.h"
#include "core/utf8.h"

/* The character's bytes by RFC 3629's definition; 0 for a surrogate and what is beyond Unicode. */
static size_t encode(uint32_t character, uint8_t out[4]) {
    if (character < 0x80) {
        out[0] = (uint8_t)character;
        return 1;
    }
    if ((character >= 0xd800 && character < 0xe000) || character > 0x10ffff) {
        return 0;
    }
    size_t length = character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
    for (size_t i = length; i-- > 1; character >>= 6) {
        out[i] = (uint8_t)(0x80 | (character & 0x3f));
    }
    out[0] = (uint8_t)(0xf00 >> length | character);
    return length;
}

static void test_every_character_is_valid(void) {
    for (uint32_t character = 0; character <= 0x10ffff; character++) {
        uint8_t bytes[4];
        size_t length = encode(character, bytes);
        if (length) {
            CHECK_EQUAL(length, ss_utf8_length(bytes, bytes + length));
        }
    }
}

/* Of all sequences of three bytes exactly those are valid that can be made of characters. */
static void test_every_other_sequence_is_none(void) {
    static uint8_t is_character[1 << 24];
    for (uint32_t character = 0; character < 0x10000; character++) {
        uint8_t bytes[4] = {0};
        if (encode(character, bytes)) {
            is_character[bytes[0] << 16 | bytes[1] << 8 | bytes[2]] = 1;
        }
    }
    for (uint32_t first = 0x80; first < 0xf0; first++) {
        for (uint32_t rest = 0; rest < 0x10000; rest++) {
            const uint8_t bytes[3] = {(uint8_t)first, (uint8_t)(rest >> 8), (uint8_t)rest};
            unsigned length = ss_utf8_length(bytes, bytes + 3);
            uint32_t read = first << 16 | (length > 1 ? rest & 0xff00 : 0) | (length > 2 ? rest & 0xff : 0);
            bool is_some = length > 0 && is_character[read];
            bool could_be = is_character[first << 16 | (rest & 0xff00)] || is_character[first << 16 | rest];
            CHECK_EQUAL(could_be, is_some);
        }
    }
    const uint8_t beyond[] = {0xf4, 0x90, 0x80, 0x80}, overlong[] = {0xf0, 0x8f, 0xbf, 0xbf};
    CHECK_EQUAL(0, ss_utf8_length(beyond, beyond + 4));
    CHECK_EQUAL(0, ss_utf8_length(overlong, overlong + 4));
}

/* One bad byte, or one character, at each place of texts of each length up to several blocks. */
static void test_fast_paths_see_every_byte(void) {
    enum { LENGTH_MAX = 200 };
    uint8_t text[LENGTH_MAX];
    for (size_t length = 0; length <= LENGTH_MAX; length++) {
        memset(text, 'a', length);
        CHECK(ss_utf8_is_valid(text, text + length));
        for (size_t at = 0; at < length; at++) {
            text[at] = 0xff;
            CHECK(!ss_utf8_is_valid(text, text + length));
            CHECK_EQUAL(length + 2, ss_utf8_repaired_size(text, text + length));
            text[at] = 0xc3;
            CHECK(!ss_utf8_is_valid(text, text + length)); /* its second byte is missing */
            if (at + 1 < length) {
                text[at + 1] = 0xa9;
                CHECK(ss_utf8_is_valid(text, text + length));
                CHECK_EQUAL(length, ss_utf8_repaired_size(text, text + length));
                text[at + 1] = 'a';
            }
            text[at] = 'a';
        }
    }
}

static void test_each_bad_byte_becomes_a_replacement(void) {
    static const char input[] = "a\xff\xfe\xe2\x82z\xe2\x82\xac\xed\xa0\x80\xc3";
    static const char expected[] = "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz\xe2\x82\xac"
                                   "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd";
    const uint8_t *begin = (const uint8_t *)input, *end = begin + sizeof input - 1;
    uint8_t out[SS_UTF8_REPLACEMENT_BYTES * sizeof input];
    size_t size = (size_t)(ss_utf8_repair(begin, end, out) - out);
    CHECK_EQUAL(sizeof expected - 1, size);
    CHECK_EQUAL(size, ss_utf8_repaired_size(begin, end));
    CHECK(memcmp(expected, out, size) == 0);
    CHECK(ss_utf8_is_valid(out, out + size));
}

int main(void) {
    test_every_character_is_valid();
    test_every_other_sequence_is_none();
    test_fast_paths_see_every_byte();
    test_each_bad_byte_becomes_a_replacement();
    return check_finish();
}

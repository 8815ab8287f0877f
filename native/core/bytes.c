#include "core/bytes.h"

bool ss_skip_field(ss_reader *reader, uint32_t tag, unsigned depth) {
    uint64_t ignored;
    uint32_t ignored32;
    ss_reader body;
    if (tag >> 3 == 0) {
        return false;
    }
    switch (tag & 7) {
    case SS_WIRE_VARINT: return ss_read_varint(reader, &ignored);
    case SS_WIRE_FIXED64: return ss_read_fixed64(reader, &ignored);
    case SS_WIRE_BYTES: return ss_read_bytes(reader, &body);
    case SS_WIRE_FIXED32: return ss_read_fixed32(reader, &ignored32);
    case SS_WIRE_START_GROUP:
        if (depth >= SS_NESTING_MAX) {
            return false;
        }
        for (uint64_t inner; ss_read_varint(reader, &inner) && inner <= UINT32_MAX;) {
            if ((inner & 7) == SS_WIRE_END_GROUP) {
                return inner >> 3 == tag >> 3;
            }
            if (!ss_skip_field(reader, (uint32_t)inner, depth + 1)) {
                return false;
            }
        }
        return false;
    default: return false;
    }
}

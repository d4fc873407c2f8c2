// pjrt_proto.c - reads protobuf messages, the form in which plugins return modules and profiles.

#include "device/pjrt/pjrt.h"

uint64_t pjrt_proto_number(struct pjrt_proto *p) {
    uint64_t out = 0;
    for (int shift = 0; p->at < p->end && shift < 64; shift += 7) {
        uint8_t byte = *p->at++;
        out |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return out;
    }
    p->at = p->end; // truncated
    return out;
}

bool pjrt_proto_next(struct pjrt_proto *p, struct pjrt_field *f) {
    if (p->at >= p->end)
        return false;
    uint64_t head = pjrt_proto_number(p);
    *f = (struct pjrt_field){.number = (int)(head >> 3), .kind = (int)(head & 7)};
    uint64_t size = f->kind == PJRT_PROTO_WIDE ? 8 : f->kind == PJRT_PROTO_WORD ? 4 : 0;
    if (f->kind == PJRT_PROTO_NUMBER) {
        f->value = pjrt_proto_number(p);
        return true;
    }
    if (f->kind == PJRT_PROTO_BYTES)
        size = pjrt_proto_number(p);
    if (size > (uint64_t)(p->end - p->at) || (f->kind != PJRT_PROTO_BYTES && !size))
        return false;
    f->part = (struct pjrt_proto){p->at, p->at + size};
    p->at += size;
    return true;
}

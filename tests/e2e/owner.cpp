// SPDX-License-Identifier: BSD-3-Clause
#include "owner.h"

#include <unistd.h>

namespace e2e {

MappedRange::MappedRange(Side &side, void *address, std::size_t length) : m_side(side) {
    ucp_mem_map_params_t params{};
    params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
    params.address = address;
    params.length = length;
    check(ucp_mem_map(side.context(), &params, &m_memh), "ucp_mem_map");
}

MappedRange::~MappedRange() { ucp_mem_unmap(m_side.context(), m_memh); }

std::vector<char> MappedRange::key() const { return pack_key(m_side.context(), m_memh); }

void trigger_deregistration(Side &side) {
    std::vector<char> host(1 << 20);
    const MappedRange mapped(side, host.data(), host.size());
}

Bytes Cards::read_dmabuf(const Buffer &buffer, std::size_t length) const {
    const auto seen = m_domain.query(buffer.data(), length, 0x7f);
    if (!seen || seen->dmabuf_fd < 0)
        throw Failure("the domain exports no dma-buf");
    Bytes bytes(length);
    const ssize_t got = pread(seen->dmabuf_fd, bytes.data(), length, static_cast<off_t>(seen->dmabuf_offset));
    close(seen->dmabuf_fd);
    if (got != static_cast<ssize_t>(length))
        throw Failure("the dma-buf is too short");
    return bytes;
}

void request_write(Side &side, const WriteRequest &request) {
    side.pipe().send(request.key);
    side.pipe().send_number(request.address);
    side.pipe().send(request.bytes);
    side.meet();
}

void end_writes(Side &side) { side.pipe().send({}); }

void serve_writes(Side &side) {
    for (std::vector<char> key = side.pipe().receive(); !key.empty(); key = side.pipe().receive()) {
        const std::uint64_t address = side.pipe().receive_number();
        const std::vector<char> bytes = side.pipe().receive();
        RemoteKey unpacked = unpack_key(side.peer(), key);
        ucp_request_param_t param{};
        side.finish(ucp_put_nbx(side.peer(), bytes.data(), bytes.size(), address, unpacked.get(), &param), "put");
        side.flush(side.peer());
        unpacked.reset(); // before the owner may unmap the range
        side.meet();
    }
}

} // namespace e2e

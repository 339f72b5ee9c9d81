// SPDX-License-Identifier: BSD-3-Clause
#include "owner.h"

#include <unistd.h>

namespace e2e {

Mapped::Mapped(Side &side, void *address, std::size_t length) : m_side(side) {
    ucp_mem_map_params_t params{};
    params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
    params.address = address;
    params.length = length;
    check(ucp_mem_map(side.context(), &params, &m_memh), "ucp_mem_map");
}

Mapped::~Mapped() { ucp_mem_unmap(m_side.context(), m_memh); }

std::vector<char> Mapped::key() const { return pack_key(m_side.context(), m_memh); }

Bytes Cards::look(const Buffer &buffer, std::size_t length) const {
    const auto seen = m_domain.query(buffer.data(), length, 0x7f);
    if (!seen || seen->dmabuf_fd < 0)
        throw Failure("there is no dma-buf");
    Bytes bytes(length);
    const ssize_t got = pread(seen->dmabuf_fd, bytes.data(), length, static_cast<off_t>(seen->dmabuf_offset));
    close(seen->dmabuf_fd);
    if (got != static_cast<ssize_t>(length))
        throw Failure("the dma-buf is too short");
    return bytes;
}

void have_written(Side &side, const Order &order) {
    side.pipe().send(order.key);
    side.pipe().send_number(order.address);
    side.pipe().send(order.bytes);
    side.meet();
}

void dismiss(Side &side) { side.pipe().send({}); }

void obey(Side &side) {
    for (std::vector<char> key = side.pipe().receive(); !key.empty(); key = side.pipe().receive()) {
        const std::uint64_t address = side.pipe().receive_number();
        const std::vector<char> bytes = side.pipe().receive();
        RemoteKey unpacked = unpack_key(side.peer(), key);
        ucp_request_param_t param{};
        side.finish(ucp_put_nbx(side.peer(), bytes.data(), bytes.size(), address, unpacked.get(), &param), "put");
        side.flush(side.peer());
        unpacked.reset(); // before the owner goes on
        side.meet();
    }
}

} // namespace e2e

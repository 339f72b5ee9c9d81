// SPDX-License-Identifier: BSD-3-Clause
#include "ucp_side.h"

#include "os/format.h"

#include <array>

namespace gaudi::cli::explain {

void UcpSide::check(ucs_status_t status, const char *what) const {
    if (status != ucx::UCS_OK)
        throw SideFailure(os::format("{} failed: {}", what, m_library.ucs_status_string(status)));
}

UcpSide::UcpSide(const UcpLibrary &library, const Peer &peer) : m_library(library), m_peer(peer) {
    ucp_config *config = nullptr;
    check(library.ucp_config_read(nullptr, nullptr, &config), "ucp_config_read");
    UcpParams params{};
    params.field_mask = UcpParams::kFeatures;
    params.features = UcpParams::kTag | UcpParams::kRma;
    unsigned major = 0, minor = 0, release = 0;
    library.ucp_get_version(&major, &minor, &release);
    const ucs_status_t status = library.ucp_init_version(major, minor, &params, config, &m_context);
    library.ucp_config_release(config);
    check(status, "ucp_init");
    const UcpWorkerParams worker{};
    check(library.ucp_worker_create(m_context, &worker, &m_worker), "ucp_worker_create");
}

bool UcpSide::knows_gaudi() const {
    UcpContextAttributes attributes{};
    attributes.field_mask = UcpContextAttributes::kMemoryTypes;
    check(m_library.ucp_context_query(m_context, &attributes), "ucp_context_query");
    return (attributes.memory_types >> ucx::UCS_MEMORY_TYPE_GAUDI & 1) != 0;
}

void UcpSide::connect() {
    ucp_address *address = nullptr;
    std::size_t length = 0;
    check(m_library.ucp_worker_get_address(m_worker, &address, &length), "ucp_worker_get_address");
    const std::string own(reinterpret_cast<const char *>(address), length);
    m_library.ucp_worker_release_address(m_worker, address);
    const std::string other = m_peer.trade(own);
    UcpEpParams params{};
    params.field_mask = UcpEpParams::kRemoteAddress;
    params.address = reinterpret_cast<const ucp_address *>(other.data());
    check(m_library.ucp_ep_create(m_worker, &params, &m_ep), "ucp_ep_create");
}

UcpSide::~UcpSide() {
    for (ucp_rkey *key : m_keys)
        m_library.ucp_rkey_destroy(key);
    for (ucp_mem *memory : m_mapped)
        m_library.ucp_mem_unmap(m_context, memory);
    if (m_ep) {
        UcpRequestParam param{};
        param.op_attr_mask = UcpRequestParam::kFlags;
        param.flags = UcpRequestParam::kForceClose; // the other end may be gone
        RequestPointer request = m_library.ucp_ep_close_nbx(m_ep, &param);
        while (is_request(request) && m_library.ucp_request_check_status(request) == ucx::UCS_INPROGRESS)
            progress();
        if (is_request(request))
            m_library.ucp_request_free(request);
    }
    if (m_worker)
        m_library.ucp_worker_destroy(m_worker);
    if (m_context)
        m_library.ucp_cleanup(m_context);
}

ucp_mem *UcpSide::map(void *address, std::uint64_t bytes, ucs_memory_type_t type) {
    UcpMemMapParams params{};
    params.field_mask = UcpMemMapParams::kAddress | UcpMemMapParams::kLength | UcpMemMapParams::kMemoryType;
    params.address = address;
    params.length = bytes;
    params.memory_type = type;
    ucp_mem *memory = nullptr;
    check(m_library.ucp_mem_map(m_context, &params, &memory), "ucp_mem_map");
    m_mapped.push_back(memory);
    return memory;
}

std::string UcpSide::pack_key(ucp_mem *memory) const {
    void *buffer = nullptr;
    std::size_t length = 0;
    check(m_library.ucp_rkey_pack(m_context, memory, &buffer, &length), "ucp_rkey_pack");
    std::string key(static_cast<const char *>(buffer), length);
    m_library.ucp_rkey_buffer_release(buffer);
    return key;
}

ucp_rkey *UcpSide::unpack_key(const std::string &key) {
    ucp_rkey *unpacked = nullptr;
    check(m_library.ucp_ep_rkey_unpack(m_ep, key.data(), &unpacked), "ucp_ep_rkey_unpack");
    m_keys.push_back(unpacked);
    return unpacked;
}

std::string UcpSide::describe(RequestPointer request) const {
    if (!is_request(request))
        return {};
    std::array<char, 1024> text{};
    UcpRequestAttributes attributes{};
    attributes.field_mask = UcpRequestAttributes::kInfoString | UcpRequestAttributes::kInfoStringSize;
    attributes.debug_string = text.data();
    attributes.debug_string_size = text.size();
    check(m_library.ucp_request_query(request, &attributes), "ucp_request_query");
    return text.data();
}

void UcpSide::finish(RequestPointer request, const char *what) {
    constexpr unsigned kRoundsBetweenChecks = 10'000;
    for (unsigned i = 1; is_request(request) && m_library.ucp_request_check_status(request) == ucx::UCS_INPROGRESS;
         ++i) {
        progress();
        if (i % kRoundsBetweenChecks == 0)
            m_peer.check();
    }
    const ucs_status_t status = is_request(request) ? m_library.ucp_request_check_status(request) : status_in(request);
    if (is_request(request))
        m_library.ucp_request_free(request);
    check(status, what);
}

void UcpSide::flush() {
    const UcpRequestParam none{};
    finish(m_library.ucp_ep_flush_nbx(m_ep, &none), "ucp_ep_flush");
}

} // namespace gaudi::cli::explain

// SPDX-License-Identifier: BSD-3-Clause
#include "uct_side.h"

#include "output_of.h"

#include <nlohmann/json.hpp>

#include <array>

namespace uct_side {

Bytes pattern(std::size_t size, std::uint64_t seed) {
    Bytes bytes(size);
    std::uint64_t state = seed * 0x9E3779B97F4A7C15 + 1;
    for (unsigned char &byte : bytes) {
        state = state * 6364136223846793005 + 1442695040888963407;
        byte = static_cast<unsigned char>(state >> 56);
    }
    return bytes;
}

Settings settings_for_card(unsigned index) {
    static constexpr std::array<const char *, 8> kIndices = {"0", "1", "2", "3", "4", "5", "6", "7"};
    return {{"DEVICE", kIndices.at(index)}};
}

// ---- the domain -----------------------------------------------------------------------------------------------------

namespace {

Settings with_prefix(Settings settings) {
    for (auto &[name, value] : settings)
        name.insert(0, "GAUDI_COPY_");
    return settings;
}

} // namespace

Domain::Domain(const Settings &settings) : uct_open::Domain("gaudi_copy", with_prefix(settings)) {}

std::unique_ptr<Domain> Domain::find(const Settings &settings) {
    std::unique_ptr<Domain> domain(new Domain(Unopened{}));
    return domain->open("gaudi_copy", with_prefix(settings)) == UCS_OK ? std::move(domain) : nullptr;
}

uct_md_attr_t Domain::attributes() const {
    uct_md_attr_t attr{};
    check(uct_md_query(md(), &attr), "uct_md_query");
    return attr;
}

std::optional<MemoryAttributes> Domain::query(const void *address, std::size_t length, std::uint64_t mask) const {
    MemoryAttributes attributes{};
    attributes.field_mask = mask;
    if (uct_md_mem_query_v2(md(), address, length, &attributes) != UCS_OK)
        return {};
    return attributes;
}

std::vector<unsigned char> Domain::pack_key(uct_mem_h memh) const {
    std::vector<unsigned char> key(attributes().rkey_packed_size);
    check(uct_md_mkey_pack(md(), memh, key.data()), "uct_md_mkey_pack");
    return key;
}

uct_mem_h Domain::reg(void *address, std::size_t length, std::optional<RegisterParams> params) const {
    uct_mem_h memh = nullptr;
    const RegisterParams plain{1, UCT_MD_MEM_ACCESS_ALL, -1, 0, UCS_MEMORY_TYPE_HOST};
    check(uct_md_mem_reg_v2(md(), address, length, params ? &*params : &plain, &memh), "uct_md_mem_reg_v2");
    return memh;
}

ucs_status_t Domain::dereg(uct_mem_h memh, unsigned flags) const {
    const DeregisterParams params{3, flags, memh, nullptr};
    return uct_md_mem_dereg_v2(md(), &params);
}

// ---- memory ---------------------------------------------------------------------------------------------------------

ucs_status_t Buffer::allocate(const Domain &domain, std::size_t size, const Placement &placement,
                              uct_allocated_memory_t &memory) {
    const uct_md_h md = domain.md();
    const uct_alloc_method_t method = UCT_ALLOC_METHOD_MD;
    uct_mem_alloc_params_t params{};
    params.field_mask = UCT_MEM_ALLOC_PARAM_FIELD_FLAGS | UCT_MEM_ALLOC_PARAM_FIELD_ADDRESS |
                        UCT_MEM_ALLOC_PARAM_FIELD_MEM_TYPE | UCT_MEM_ALLOC_PARAM_FIELD_MDS |
                        UCT_MEM_ALLOC_PARAM_FIELD_NAME | UCT_MEM_ALLOC_PARAM_FIELD_SYS_DEVICE;
    params.flags = UCT_MD_MEM_ACCESS_ALL | placement.flags;
    params.address = placement.address;
    params.mem_type = UCS_MEMORY_TYPE_GAUDI;
    params.mds.mds = &md;
    params.mds.count = 1;
    params.name = "test";
    params.sys_device = placement.device;
    return uct_mem_alloc(size, &method, 1, &params, &memory);
}

Buffer::Buffer(const Domain &domain, std::size_t size, const Placement &placement) {
    check(allocate(domain, size, placement, m_memory), "uct_mem_alloc");
}

Buffer::~Buffer() {
    if (m_memory.address)
        uct_mem_free(&m_memory);
}

// ---- the transport --------------------------------------------------------------------------------------------------

ucs_status_t Transport::finish(ucs_status_t status, uct_completion_t &comp) const {
    if (status != UCS_INPROGRESS)
        return status;
    while (comp.count != 0)
        progress();
    return comp.status;
}

ucs_status_t Transport::post_put(const void *from, std::uint64_t to, std::size_t length, uct_mem_h memh,
                                 uct_completion_t &comp) const {
    const uct_iov_t iov{const_cast<void *>(from), length, memh, 0, 1};
    return uct_ep_put_zcopy(ep(), &iov, 1, to, 0, &comp);
}

ucs_status_t Transport::post_get(void *to, std::uint64_t from, std::size_t length, uct_mem_h memh,
                                 uct_completion_t &comp) const {
    const uct_iov_t iov{to, length, memh, 0, 1};
    return uct_ep_get_zcopy(ep(), &iov, 1, from, 0, &comp);
}

ucs_status_t Transport::put(const void *from, std::uint64_t to, std::size_t length, uct_mem_h memh) const {
    uct_completion_t comp = make_completion();
    return finish(post_put(from, to, length, memh, comp), comp);
}

ucs_status_t Transport::get(void *to, std::uint64_t from, std::size_t length, uct_mem_h memh) const {
    uct_completion_t comp = make_completion();
    return finish(post_get(to, from, length, memh, comp), comp);
}

ucs_status_t Transport::flush() const {
    uct_completion_t comp = make_completion();
    return finish(uct_ep_flush(ep(), UCT_FLUSH_FLAG_LOCAL, &comp), comp);
}

void Transport::write(const Buffer &buffer, const Bytes &bytes, std::size_t offset) const {
    check(put(bytes.data(), buffer.address(offset), bytes.size()), "put");
}

Bytes Transport::read(const Buffer &buffer, std::size_t length, std::size_t offset) const {
    Bytes bytes(length);
    check(get(bytes.data(), buffer.address(offset), length), "get");
    return bytes;
}

uct_completion_t make_completion(int count) {
    return {[](uct_completion_t *) {}, count, UCS_OK};
}

// ---- counters -------------------------------------------------------------------------------------------------------

namespace {

nlohmann::json read_card_reports() { return nlohmann::json::parse(output_of(SOFTGAUDI_STAT " --json")).at("cards"); }

} // namespace

std::uint64_t read_counter(const char *name) {
    std::uint64_t sum = 0;
    const nlohmann::json cards = read_card_reports();
    for (const auto &card : cards)
        sum += card.at(name).get<std::uint64_t>();
    return sum;
}

std::uint64_t count_calls(const char *function) {
    std::uint64_t sum = 0;
    const nlohmann::json cards = read_card_reports();
    for (const auto &card : cards)
        sum += card.at("calls").value(function, std::uint64_t{0});
    return sum;
}

} // namespace uct_side

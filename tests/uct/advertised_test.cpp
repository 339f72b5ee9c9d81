// SPDX-License-Identifier: BSD-3-Clause
// Attributes of the domain and the transport, with all features and with some missing.
#include "uct_side.h"

#include <dirent.h>
#include <stdlib.h>

using namespace uct_side;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

namespace {

constexpr std::uint64_t kHost = UCS_BIT(UCS_MEMORY_TYPE_HOST);
constexpr std::uint64_t kGaudi = UCS_BIT(UCS_MEMORY_TYPE_GAUDI);

class AdvertisedTest : public ::testing::Test {
protected:
    static void set(const char *name, const std::string &value) { setenv(name, value.c_str(), 1); }

    e2e::Printed m_printed;
};

using DomainAttributes = AdvertisedTest;
using DomainOpen = AdvertisedTest;
using TransportAttributes = AdvertisedTest;

TEST_F(DomainAttributes, offer_alloc_registration_and_detection) {
    const Domain domain;
    const uct_md_attr_t attr = domain.attributes();
    const std::uint64_t flags = UCT_MD_FLAG_ALLOC | UCT_MD_FLAG_REG | UCT_MD_FLAG_NEED_MEMH | UCT_MD_FLAG_NEED_RKEY |
                                UCT_MD_FLAG_FIXED | UCT_MD_FLAG_REG_DMABUF;
    EXPECT_EQ(attr.cap.flags & flags, flags);
    EXPECT_EQ(attr.cap.flags & (UCT_MD_FLAG_RKEY_PTR | UCT_MD_FLAG_INVALIDATE), 0u);
    EXPECT_EQ(attr.cap.alloc_mem_types, kGaudi);
    EXPECT_EQ(attr.cap.detect_mem_types, kGaudi);
    EXPECT_EQ(attr.cap.reg_mem_types, kHost | kGaudi);
    EXPECT_EQ(attr.cap.access_mem_types, kHost | kGaudi);
    EXPECT_EQ(attr.rkey_packed_size, 24u);
    EXPECT_EQ(attr.cap.max_alloc, UINT64_MAX);
    EXPECT_EQ(attr.cap.max_reg, SIZE_MAX);
    EXPECT_STREQ(attr.component_name, "gaudi_copy");
    EXPECT_THAT(m_printed.complaints(), IsEmpty());
}

TEST_F(TransportAttributes, list_one_device_under_two_transport_names) {
    const Domain domain;
    uct_tl_resource_desc_t *resources = nullptr;
    unsigned count = 0;
    ASSERT_EQ(uct_md_query_tl_resources(domain.md(), &resources, &count), UCS_OK);
    ASSERT_EQ(count, 2u);
    EXPECT_STREQ(resources[0].tl_name, "gaudi_cpy");
    EXPECT_STREQ(resources[1].tl_name, "gaudi_gdr");
    for (unsigned i = 0; i < count; ++i) {
        EXPECT_STREQ(resources[i].dev_name, "gaudi");
        EXPECT_EQ(resources[i].dev_type, UCT_DEVICE_TYPE_ACC);
    }
    uct_release_tl_resource_list(resources);
}

TEST_F(TransportAttributes, offer_short_and_zcopy_of_any_size) {
    Domain domain;
    for (const char *name : {"gaudi_cpy", "gaudi_gdr"}) {
        const Transport transport(domain, name);
        const uct_iface_attr_t attr = transport.attributes();
        const std::uint64_t flags = UCT_IFACE_FLAG_PUT_SHORT | UCT_IFACE_FLAG_GET_SHORT | UCT_IFACE_FLAG_PUT_ZCOPY |
                                    UCT_IFACE_FLAG_GET_ZCOPY | UCT_IFACE_FLAG_PENDING | UCT_IFACE_FLAG_CONNECT_TO_IFACE;
        EXPECT_EQ(attr.cap.flags, flags);
        EXPECT_EQ(attr.cap.put.max_zcopy, SIZE_MAX);
        EXPECT_EQ(attr.cap.get.max_zcopy, SIZE_MAX);
        EXPECT_EQ(attr.cap.put.min_zcopy, 0u);
        EXPECT_GT(attr.bandwidth.shared + attr.bandwidth.dedicated, 1e9);
        EXPECT_NE(attr.cap.event_flags & UCT_IFACE_FLAG_EVENT_FD, 0u);
    }
}

TEST_F(DomainOpen, opens_no_card_and_maps_nothing) {
    Domain domain;
    const Transport transport(domain);
    Bytes host(kMiB);
    const uct_mem_h memh = domain.reg(host.data(), host.size());
    (void)domain.query(host.data());
    EXPECT_EQ(domain.dereg(memh), UCS_OK);
    EXPECT_EQ(count_calls("open"), 0u);
    EXPECT_EQ(count_calls("host_memory_map"), 0u);
}

TEST_F(DomainAttributes, without_copy_path_offer_no_access_but_export) {
    set("SOFTGAUDI_MODEL", "gaudi3");
    Domain domain;
    EXPECT_EQ(domain.attributes().cap.access_mem_types, 0u);
    const Transport transport(domain);
    EXPECT_EQ(transport.attributes().cap.flags, UCT_IFACE_FLAG_CONNECT_TO_IFACE);
    const Buffer buffer(domain, kMiB);
    const auto seen = domain.query(buffer.data() + 5, 1, 0x7f);
    ASSERT_TRUE(seen);
    EXPECT_EQ(seen->mem_type, UCS_MEMORY_TYPE_GAUDI);
    EXPECT_EQ(seen->base_address, buffer.data());
    EXPECT_GE(seen->dmabuf_fd, 0);
    EXPECT_EQ(seen->mem_flags, UCS_MEM_FLAG_REGISTRABLE);
    close(seen->dmabuf_fd);
    Bytes host(100);
    EXPECT_EQ(transport.put(host.data(), buffer.address(), host.size()), UCS_ERR_UNSUPPORTED);
    PerfAttributes perf{};
    perf.field_mask = 7;
    perf.operation = 5;
    perf.remote_memory_type = UCS_MEMORY_TYPE_GAUDI;
    EXPECT_EQ(uct_iface_estimate_perf(transport.iface(), &perf), UCS_ERR_UNSUPPORTED);
}

TEST_F(DomainAttributes, with_a_framework_to_come_offer_access) {
    set("SOFTGAUDI_MODEL", "gaudi3");
    set("UCX_GAUDI_CPY_FRAMEWORK", "y");
    Domain domain;
    EXPECT_EQ(domain.attributes().cap.access_mem_types, kHost | kGaudi);
    const Transport transport(domain);
    EXPECT_NE(transport.attributes().cap.flags & UCT_IFACE_FLAG_PUT_SHORT, 0u);
    set("UCX_GAUDI_CPY_FRAMEWORK", "n");
    EXPECT_EQ(domain.attributes().cap.access_mem_types, kHost | kGaudi) << "what was offered does not change";
    const Transport later(domain);
    EXPECT_NE(later.attributes().cap.flags & UCT_IFACE_FLAG_PUT_SHORT, 0u);
    EXPECT_EQ(Domain().attributes().cap.access_mem_types, 0u);
    EXPECT_THAT(m_printed.complaints(), IsEmpty());
}

TEST_F(DomainAttributes, with_dmabuf_off_memory_is_not_registrable) {
    const Domain domain(Settings{{"DMABUF", "n"}});
    const Buffer buffer(domain, kMiB);
    const auto seen = domain.query(buffer.data(), kMiB, 0x7f);
    ASSERT_TRUE(seen);
    EXPECT_EQ(seen->mem_flags, 0);
    EXPECT_EQ(seen->dmabuf_fd, -1);
}

TEST_F(DomainAttributes, with_refused_export_memory_is_not_registrable) {
    set("SOFTGAUDI_FAULTS", "device_mapped_memory_export_dmabuf_fd=EINVAL");
    const Domain domain;
    const Buffer buffer(domain, kMiB);
    const auto seen = domain.query(buffer.data(), kMiB, 0x7f);
    ASSERT_TRUE(seen);
    EXPECT_EQ(seen->mem_flags, 0);
    EXPECT_EQ(seen->dmabuf_fd, -1);
    EXPECT_THAT(m_printed.complaints(), IsEmpty()) << "staging is no error";
}

TEST_F(DomainOpen, missing_thunk_library_is_reported) {
    set("GAUDI_THUNK", "/nowhere/libhl-thunk.so");
    EXPECT_EQ(Domain::find(), nullptr);
    EXPECT_THAT(m_printed.complaints(), testing::ElementsAre(HasSubstr("/nowhere/libhl-thunk.so")));
}

TEST_F(DomainOpen, wrong_mapping_table_is_reported_once) {
    set("GAUDI_MAPPING_TABLE", R"([{"index": 0, "module_id": 3, "bus_id": "0000:ff:00.0"}])");
    EXPECT_EQ(Domain::find(), nullptr);
    EXPECT_EQ(Domain::find(), nullptr);
    EXPECT_THAT(m_printed.complaints(),
                testing::ElementsAre(AllOf(HasSubstr("GAUDI_MAPPING_TABLE"), HasSubstr("index 0"),
                                           HasSubstr("no card at 0000:ff:00.0"))));
}

TEST_F(DomainOpen, unknown_card_in_the_device_setting_is_reported) {
    EXPECT_EQ(Domain::find(Settings{{"DEVICE", "module:77"}}), nullptr);
    EXPECT_THAT(m_printed.complaints(), testing::Contains(AllOf(HasSubstr("UCX_GAUDI_COPY_DEVICE"),
                                                                HasSubstr("there is no card 'module:77'"))));
}

TEST_F(TransportAttributes, estimates_depend_on_direction_and_memory_type) {
    Domain domain;
    const Transport transport(domain);
    enum { put_short = 3, put_zcopy = 5, get_zcopy = 8 };
    const auto bandwidth = [&](int operation, ucs_memory_type_t local, ucs_memory_type_t remote, int local_device = 255,
                               int remote_device = 255) -> double {
        PerfAttributes perf{};
        perf.field_mask = 0x1fff;
        perf.operation = operation;
        perf.local_memory_type = local;
        perf.remote_memory_type = remote;
        perf.local_sys_device = static_cast<ucs_sys_device_t>(local_device);
        perf.remote_sys_device = static_cast<ucs_sys_device_t>(remote_device);
        if (uct_iface_estimate_perf(transport.iface(), &perf) != UCS_OK)
            return -1;
        EXPECT_EQ(perf.recv_overhead, 0);
        return perf.bandwidth.shared + perf.bandwidth.dedicated;
    };
    const auto host = UCS_MEMORY_TYPE_HOST, gaudi = UCS_MEMORY_TYPE_GAUDI, cuda = UCS_MEMORY_TYPE_CUDA;
    EXPECT_EQ(bandwidth(put_zcopy, host, host), -1);
    EXPECT_EQ(bandwidth(put_zcopy, cuda, gaudi), -1);
    EXPECT_EQ(bandwidth(get_zcopy, gaudi, cuda), -1);
    EXPECT_GT(bandwidth(put_zcopy, host, gaudi), 1e9);
    EXPECT_GT(bandwidth(get_zcopy, host, gaudi), 1e9);
    EXPECT_GT(bandwidth(put_zcopy, gaudi, gaudi), 2 * bandwidth(put_zcopy, host, gaudi)) << "within a card";
    EXPECT_EQ(bandwidth(put_zcopy, gaudi, gaudi, 1, 2), bandwidth(put_zcopy, host, gaudi)) << "between cards";
    EXPECT_LT(bandwidth(put_short, host, gaudi), bandwidth(put_zcopy, host, gaudi));
    PerfAttributes nothing{};
    EXPECT_EQ(uct_iface_estimate_perf(transport.iface(), &nothing), UCS_OK) << "no field requested";
}

} // namespace

// SPDX-License-Identifier: BSD-3-Clause
// Devices: their number, attributes and nodes in /dev.
#include "hca.h"

#include <endian.h>
#include <sys/stat.h>

using namespace hca;

extern "C" int __xstat(int version, const char *path, struct stat *out);

namespace {

class Devices : public HcaTest {
protected:
    static int count() {
        int devices = -1;
        ibv_free_device_list(ibv_get_device_list(&devices));
        return devices;
    }
};

TEST_F(Devices, default_count_is_two) { EXPECT_EQ(count(), 2); }

TEST_F(Devices, count_follows_the_setting) {
    set("SOFTHCA_DEVICES", "4");
    EXPECT_EQ(count(), 4);
}

TEST_F(Devices, count_of_zero_is_accepted) {
    set("SOFTHCA_DEVICES", "0");
    EXPECT_EQ(count(), 0);
}

TEST_F(Devices, attributes_identify_software) {
    ibv_device **list = ibv_get_device_list(nullptr);
    EXPECT_STREQ(ibv_get_device_name(list[1]), "softhca1");
    EXPECT_EQ(ibv_get_device_index(list[1]), -1);
    ibv_context *context = ibv_open_device(list[1]);
    ibv_device_attr attr{};
    EXPECT_EQ(ibv_query_device(context, &attr), 0);
    EXPECT_STREQ(attr.fw_ver, "softhca");
    EXPECT_EQ(attr.node_guid, ibv_get_device_guid(list[1]));
    EXPECT_EQ(attr.atomic_cap, IBV_ATOMIC_HCA);
    EXPECT_GT(attr.max_srq, 0);
    EXPECT_EQ(attr.phys_port_cnt, 1);
    ibv_free_device_list(list);
    EXPECT_EQ(ibv_close_device(context), 0);
}

TEST_F(Devices, sysfs_path_holds_the_pci_address) {
    ibv_device **list = ibv_get_device_list(nullptr);
    EXPECT_STREQ(list[0]->ibdev_path, "/sys/bus/pci/devices/0000:1c:00.0/infiniband/softhca0");
    EXPECT_STREQ(list[1]->ibdev_path, "/sys/bus/pci/devices/0000:9d:00.0/infiniband/softhca1");
    ibv_free_device_list(list);
}

TEST_F(Devices, port_is_active_infiniband) {
    const Node node;
    ibv_port_attr port{};
    EXPECT_EQ(ibv_query_port(node.context, 1, &port), 0);
    EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
    EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_INFINIBAND);
    EXPECT_NE(port.lid, 0);
    EXPECT_EQ(port.gid_tbl_len, 1);
    EXPECT_EQ(port.max_msg_sz, 1u << 30);
    EXPECT_EQ(ibv_query_port(node.context, 2, &port), EINVAL);
}

TEST_F(Devices, query_port_of_old_programs_writes_only_the_old_structure) {
    const Node node;
    ibv_port_attr port{};
    port.port_cap_flags2 = 0x1234;
    // The macro of the same name would call the newer function.
    EXPECT_EQ((ibv_query_port)(node.context, 1, reinterpret_cast<_compat_ibv_port_attr *>(&port)), 0);
    EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
    EXPECT_EQ(port.port_cap_flags2, 0x1234);
}

TEST_F(Devices, port_has_one_gid_and_one_pkey) {
    const Node node;
    ibv_gid gid{};
    EXPECT_EQ(ibv_query_gid(node.context, 1, 0, &gid), 0);
    EXPECT_EQ(gid.global.interface_id, ibv_get_device_guid(node.context->device));
    EXPECT_EQ(ibv_query_gid(node.context, 1, 1, &gid), -1);
    ibv_gid_entry entry{};
    EXPECT_EQ(ibv_query_gid_ex(node.context, 1, 0, &entry, 0), 0);
    EXPECT_EQ(entry.gid_type, static_cast<uint32_t>(IBV_GID_TYPE_IB));
    EXPECT_EQ(ibv_query_gid_ex(node.context, 1, 7, &entry, 0), EINVAL);
    EXPECT_EQ(ibv_query_gid_table(node.context, &entry, 1, 0), 1);
    EXPECT_EQ(ibv_query_gid_table(node.context, &entry, 0, 0), -EINVAL);
    __be16 pkey = 0;
    EXPECT_EQ(ibv_query_pkey(node.context, 1, 0, &pkey), 0);
    EXPECT_EQ(pkey, 0xffff);
    EXPECT_EQ(ibv_query_pkey(node.context, 1, 1, &pkey), -1);
    EXPECT_EQ(ibv_get_pkey_index(node.context, 1, pkey), 0);
    EXPECT_EQ(ibv_get_pkey_index(node.context, 1, htobe16(7)), -1);
}

TEST_F(Devices, character_device_is_accessible) {
    struct stat info {};
    for (const char *path : {"/dev/infiniband/uverbs_softhca0", "/dev/infiniband/uverbs_softhca1"}) {
        EXPECT_EQ(stat(path, &info), 0);
        EXPECT_TRUE(S_ISCHR(info.st_mode));
        info = {};
        EXPECT_EQ(__xstat(1, path, &info), 0);
        EXPECT_TRUE(S_ISCHR(info.st_mode));
        EXPECT_EQ(access(path, R_OK | W_OK), 0);
        EXPECT_EQ(access(path, X_OK), -1);
    }
    EXPECT_EQ(stat("/dev/infiniband/uverbs_softhca2", &info), -1);
    EXPECT_EQ(access("/dev/infiniband/uverbs_softhca2", F_OK), -1);
}

TEST_F(Devices, other_files_are_unaffected_by_interposition) {
    struct stat info {};
    EXPECT_EQ(stat("/dev/null", &info), 0);
    EXPECT_TRUE(S_ISCHR(info.st_mode));
    EXPECT_EQ(__xstat(1, fabric().c_str(), &info), 0);
    EXPECT_TRUE(S_ISDIR(info.st_mode));
    EXPECT_EQ(access("/dev/null", R_OK), 0);
    EXPECT_EQ(access("/nowhere", F_OK), -1);
    EXPECT_EQ(errno, ENOENT);
}

TEST_F(Devices, unsupported_functions_are_refused) {
    Node node;
    ibv_qp *qp = node.queue_pair();
    ibv_ece ece{};
    EXPECT_EQ(ibv_query_ece(qp, &ece), EOPNOTSUPP);
    EXPECT_EQ(ibv_set_ece(qp, &ece), EOPNOTSUPP);
    ibv_gid group{};
    EXPECT_EQ(ibv_attach_mcast(qp, &group, 1), EOPNOTSUPP);
    EXPECT_EQ(ibv_detach_mcast(qp, &group, 1), EOPNOTSUPP);
    EXPECT_EQ(ibv_resize_cq(node.send_cq, 10), EOPNOTSUPP);
    EXPECT_EQ(ibv_qp_to_qp_ex(qp), nullptr);
    EXPECT_EQ(ibv_import_device(0), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
    uint8_t mac[6] = {};
    uint16_t vlan = 0;
    ibv_ah_attr path{};
    EXPECT_EQ(ibv_resolve_eth_l2_from_gid(node.context, &path, mac, &vlan), EOPNOTSUPP);
    EXPECT_EQ(ibv_query_qp_data_in_order(qp, IBV_WR_RDMA_WRITE, 0), 0);
    EXPECT_EQ(ibv_fork_init(), 0);
    EXPECT_EQ(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
}

TEST_F(Devices, enumerators_have_names) {
    EXPECT_STREQ(ibv_wc_status_str(IBV_WC_RETRY_EXC_ERR), "transport retry counter exceeded");
    EXPECT_STREQ(ibv_wc_status_str(static_cast<ibv_wc_status>(30)), "unknown");
    EXPECT_STREQ(ibv_event_type_str(IBV_EVENT_PORT_ERR), "port error");
    EXPECT_STREQ(ibv_port_state_str(IBV_PORT_ACTIVE), "ACTIVE");
    EXPECT_STREQ(ibv_node_type_str(IBV_NODE_CA), "InfiniBand channel adapter");
    EXPECT_EQ(ibv_rate_to_mbps(IBV_RATE_200_GBPS), 206250);
    EXPECT_EQ(ibv_rate_to_mult(IBV_RATE_40_GBPS), 16);
    EXPECT_EQ(mult_to_ibv_rate(16), IBV_RATE_40_GBPS);
    EXPECT_EQ(mbps_to_ibv_rate(206250), IBV_RATE_200_GBPS);
    EXPECT_EQ(ibv_rate_to_mbps(static_cast<ibv_rate>(31)), -1);
    EXPECT_EQ(mult_to_ibv_rate(7), IBV_RATE_MAX);
}

} // namespace

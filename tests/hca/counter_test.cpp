// SPDX-License-Identifier: BSD-3-Clause
// Reports of softhca_stat: bytes by device and region, with host memory and dma-bufs apart.
#include "hca.h"

#include <nlohmann/json.hpp>

using namespace hca;
using soft::Card;
using soft::kPage;

namespace {

class Counters : public HcaTest {
protected:
    struct Output {
        std::string text;
        int code;
    };
    static Output run(const std::string &arguments) {
        FILE *pipe = popen((std::string(SOFTHCA_STAT) + " " + arguments + " 2>&1").c_str(), "r");
        EXPECT_NE(pipe, nullptr);
        Output out;
        std::array<char, 4096> part;
        for (size_t got = 0; (got = fread(part.data(), 1, part.size(), pipe)) > 0;)
            out.text.append(part.data(), got);
        out.code = pclose(pipe);
        return out;
    }
    static nlohmann::json stat(unsigned device = 0) {
        const Output out = run("--json");
        EXPECT_EQ(out.code, 0);
        const auto all = nlohmann::json::parse(out.text);
        EXPECT_EQ(all["software"], true);
        return all["devices"][device];
    }
    static nlohmann::json region(const ibv_mr *mr, unsigned device = 0) {
        const auto all = stat(device);
        for (const auto &entry : all["regions"])
            if (entry["key"] == mr->rkey)
                return entry;
        return {};
    }
};

TEST_F(Counters, transfer_is_counted_on_both_sides) {
    Node node, other(1);
    std::vector<unsigned char> a(5000), b(5000);
    const ibv_mr *from = node.reg(a), *to = other.reg(b);
    const Pair pair(node, other);
    Request write(IBV_WR_RDMA_WRITE);
    EXPECT_EQ(status_of(pair.here, write.piece(a.data(), 3000, from->lkey).remote(to)), IBV_WC_SUCCESS);
    Request read(IBV_WR_RDMA_READ);
    EXPECT_EQ(status_of(pair.here, read.piece(a.data(), 200, from->lkey).remote(to)), IBV_WC_SUCCESS);
    const auto source = region(from), target = region(to, 1);
    EXPECT_EQ(source["kind"], "host");
    EXPECT_EQ(source["pid"], getpid());
    EXPECT_EQ(source["local_read"], 3000);
    EXPECT_EQ(source["local_written"], 200);
    EXPECT_EQ(source["remote_read"], 0);
    EXPECT_EQ(target["remote_written"], 3000);
    EXPECT_EQ(target["remote_read"], 200);
    EXPECT_EQ(target["local_read"], 0);
    const auto device = stat();
    EXPECT_EQ(device["device"], "softhca0");
    EXPECT_EQ(device["bus_id"], "0000:1c:00.0");
    EXPECT_EQ(device["link"], "up");
    EXPECT_EQ(device["sends"], 2);
    EXPECT_EQ(device["sent_bytes"], 3200);
    EXPECT_EQ(device["host"]["local_read"], 3000);
    EXPECT_EQ(device["dmabuf"]["local_read"], 0);
}

TEST_F(Counters, card_and_host_memory_are_counted_apart) {
    Card card;
    Node node;
    const uint64_t block = card.memory();
    const int fd = hlthunk_device_mapped_memory_export_dmabuf_fd(card.fd, block, kPage, 0, O_RDWR | O_CLOEXEC);
    ibv_mr *device = ibv_reg_dmabuf_mr(node.pd, 0, kPage, block, fd, kAll);
    close(fd);
    ASSERT_NE(device, nullptr);
    const Pair pair(node, node);
    Request write(IBV_WR_RDMA_WRITE);
    write.piece(reinterpret_cast<void *>(block), 1000, device->lkey).remote(block + 5000, device->rkey);
    EXPECT_EQ(status_of(pair.here, write), IBV_WC_SUCCESS);
    EXPECT_EQ(region(device)["kind"], "dmabuf");
    EXPECT_EQ(region(device)["local_read"], 1000);
    EXPECT_EQ(region(device)["remote_written"], 1000);
    EXPECT_EQ(ibv_dereg_mr(device), 0);
    const auto after = stat(); // counts of the device remain
    EXPECT_EQ(after["dmabuf"]["local_read"], 1000);
    EXPECT_EQ(after["dmabuf"]["remote_written"], 1000);
    EXPECT_EQ(after["host"]["local_read"], 0);
    EXPECT_EQ(after["dmabuf_registrations"], 1);
    EXPECT_TRUE(after["regions"].empty());
}

TEST_F(Counters, failed_requests_are_counted) {
    Node node;
    const Pair pair(node, node, {.rnr_retry = 3});
    Request send(IBV_WR_SEND);
    EXPECT_EQ(status_of(pair.here, send), IBV_WC_RNR_RETRY_EXC_ERR);
    ibv_qp *lonely = node.queue_pair();
    connect(lonely, {pair.there->qp_num, node.lid(), 0, 0}, {.retry_count = 2, .timeout = 1});
    EXPECT_EQ(status_of(lonely, send), IBV_WC_RETRY_EXC_ERR);
    const auto device = stat();
    EXPECT_EQ(device["rnr_naks"], 4);
    EXPECT_EQ(device["retries"], 2);
    EXPECT_EQ(device["errors"], 2);
}

TEST_F(Counters, plain_report_lists_the_counters) {
    Node node;
    std::vector<unsigned char> a(5000);
    const ibv_mr *mr = node.reg(a);
    const Pair pair(node, node);
    Request write(IBV_WR_RDMA_WRITE);
    EXPECT_EQ(status_of(pair.here, write.piece(a.data(), 300, mr->lkey).remote(mr, 1000)), IBV_WC_SUCCESS);
    const Output out = run("");
    EXPECT_EQ(out.code, 0);
    EXPECT_NE(out.text.find("softhca0 (0000:1c:00.0), link up\n"), std::string::npos) << out.text;
    EXPECT_NE(out.text.find("  host local_read                  300\n"), std::string::npos) << out.text;
    EXPECT_NE(out.text.find("local 300r 0w, remote 0r 300w\n"), std::string::npos) << out.text;
}

TEST_F(Counters, wrong_setting_is_printed) {
    set("SOFTHCA_DEVICES", "x");
    EXPECT_EQ(run("").text, "softhca_stat: SOFTHCA_DEVICES=x: expected a number from 0 to 4\n");
}

} // namespace

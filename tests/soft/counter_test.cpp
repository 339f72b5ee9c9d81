// SPDX-License-Identifier: BSD-3-Clause
// Counters of the work that cards did, read by softgaudi_stat.
#include "soft.h"

#include <nlohmann/json.hpp>

#include <cstdio>

using namespace soft;

namespace {

constexpr const char *kFirst = "0000:19:00.0", *kSecond = "0000:1a:00.0";

struct Output {
    int code;
    std::string text;
};

Output run_stat(const std::string &arguments) {
    Output output{-1, ""};
    std::FILE *pipe = popen((std::string(SOFTGAUDI_STAT " ") + arguments + " 2>&1").c_str(), "re");
    EXPECT_NE(pipe, nullptr);
    std::array<char, 4096> piece{};
    while (const size_t got = std::fread(piece.data(), 1, piece.size(), pipe))
        output.text.append(piece.data(), got);
    const int status = pclose(pipe);
    output.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
    return output;
}

nlohmann::json stat() {
    const Output output = run_stat("--json");
    EXPECT_EQ(output.code, 0);
    return nlohmann::json::parse(output.text);
}

nlohmann::json stat(unsigned card) { return stat()["cards"][card]; }

uint64_t calls(const nlohmann::json &card, const char *function) { return card["calls"].value(function, uint64_t{0}); }

uint64_t all_calls(const nlohmann::json &card) {
    uint64_t sum = 0;
    for (const auto &count : card["calls"])
        sum += count.get<uint64_t>();
    return sum;
}

class Counter : public SoftTest {};

TEST_F(Counter, new_server_has_zero_counts) {
    EXPECT_EQ(hlthunk_get_device_count(HLTHUNK_DEVICE_DONT_CARE), 8); // creates the server
    const nlohmann::json report = stat();
    EXPECT_EQ(report["schema"], 1);
    EXPECT_EQ(report["software"], true);
    ASSERT_EQ(report["cards"].size(), 8u);
    for (unsigned i = 0; i < 8; ++i) {
        const nlohmann::json &card = report["cards"][i];
        EXPECT_EQ(card["accel"], i);
        EXPECT_EQ(card["card"], card["module_id"]);
        EXPECT_NE(card["card"], i);
        EXPECT_EQ(card["in_use"], false);
        EXPECT_EQ(all_calls(card), i == 0 ? 1u : 0u);
        for (const char *key :
             {"opens", "hard_resets", "dram_used_bytes", "down_bytes", "up_bytes", "card_bytes", "fill_bytes",
              "host_bytes", "not_made_bytes", "submissions", "packets", "maps", "exports"})
            EXPECT_EQ(card[key], 0u) << key;
    }
    EXPECT_EQ(report["cards"][0]["bus_id"], kFirst);
}

TEST_F(Counter, calls_are_counted_by_name_and_card) {
    Card first(kFirst), second(kSecond);
    hlthunk_hw_ip_info info{};
    for (int i = 0; i < 3; ++i)
        EXPECT_EQ(hlthunk_get_hw_ip_info(first.fd, &info), 0);
    EXPECT_EQ(hlthunk_get_hw_ip_info(second.fd, &info), 0);
    const nlohmann::json report = stat();
    EXPECT_EQ(report["cards"][0]["calls"], (nlohmann::json{{"open", 1}, {"get_hw_ip_info", 3}}));
    EXPECT_EQ(report["cards"][1]["calls"], (nlohmann::json{{"open", 1}, {"get_hw_ip_info", 1}}));
    EXPECT_TRUE(report["cards"][2]["calls"].empty());
}

TEST_F(Counter, failed_calls_are_counted) {
    Card card(kFirst);
    EXPECT_EQ(hlthunk_memory_unmap(card.fd, 1), -EINVAL);
    EXPECT_EQ(hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, kFirst), -EBUSY);
    const nlohmann::json counted = stat(0);
    EXPECT_EQ(calls(counted, "memory_unmap"), 1u);
    EXPECT_EQ(calls(counted, "open"), 2u);
    EXPECT_EQ(counted["opens"], 1u);
}

TEST_F(Counter, calls_without_card_count_on_the_first) {
    hlthunk_free(hlthunk_malloc(1));
    hlthunk_free(hlthunk_get_version());
    EXPECT_EQ(hlthunk_get_device_count(HLTHUNK_DEVICE_DONT_CARE), 8);
    EXPECT_EQ(stat(0)["calls"],
              (nlohmann::json{{"malloc", 1}, {"free", 2}, {"get_version", 1}, {"get_device_count", 1}}));
}

TEST_F(Counter, one_copy_costs_four_calls) {
    Card card(kFirst);
    const uint64_t device = card.memory();
    std::vector<unsigned char> data(4096);
    // Mapped once, as in any program that copies repeatedly.
    std::array<uint32_t, 6> words{};
    const uint64_t buffer = card.map(words.data(), sizeof words);
    const uint64_t before = all_calls(stat(0));

    const uint64_t address = hlthunk_host_memory_map(card.fd, data.data(), 0, data.size());
    const Packets packets = Packets().copy(address, device, 4096);
    std::memcpy(words.data(), packets.data(), sizeof words);
    std::array chunks = {Card::chunk(kDown, buffer, packets.size())};
    uint64_t seq = 0;
    EXPECT_EQ(card.try_submit(chunks, seq), 0);
    EXPECT_EQ(card.wait(seq), 0);
    EXPECT_EQ(hlthunk_memory_unmap(card.fd, address), 0);

    const nlohmann::json after = stat(0);
    EXPECT_EQ(all_calls(after) - before, 4u);
    EXPECT_EQ(calls(after, "command_submission"), 1u);
    EXPECT_EQ(calls(after, "wait_for_cs"), 1u);
    EXPECT_EQ(calls(after, "host_memory_map"), 2u);
    EXPECT_EQ(calls(after, "memory_unmap"), 1u);
}

TEST_F(Counter, bytes_are_counted_by_direction) {
    Card card(kFirst);
    std::vector<unsigned char> a(1000), b(1000);
    const uint64_t from = card.map(a), to = card.map(b), device = card.memory();
    card.run(kDown, Packets().copy(from, device, 1000).copy(from, device, 1));
    card.run(kUp, Packets().copy(device, to, 300));
    card.run(kOnCard, Packets().copy(device, device + 5000, 70));
    card.run(kDown, Packets().copy(from, to, 20));
    card.run(kOnCard, Packets().fill(1, device, 7));
    const nlohmann::json counted = stat(0);
    EXPECT_EQ(counted["down_bytes"], 1001u);
    EXPECT_EQ(counted["up_bytes"], 300u);
    EXPECT_EQ(counted["card_bytes"], 70u);
    EXPECT_EQ(counted["host_bytes"], 20u);
    EXPECT_EQ(counted["fill_bytes"], 7u);
    EXPECT_EQ(stat(1)["down_bytes"], 0u);
}

TEST_F(Counter, repeated_identical_copies_are_all_counted) {
    Card card(kFirst);
    std::vector<unsigned char> data(1000);
    const uint64_t from = card.map(data), device = card.memory();
    Packets packets;
    for (int i = 0; i < 10; ++i)
        packets.copy(from, device, 1000);
    card.run(kDown, packets);
    EXPECT_EQ(stat(0)["down_bytes"], 10'000u);
}

TEST_F(Counter, copies_and_fills_of_null_pace_are_counted_as_not_made) {
    set("SOFTGAUDI_PACE", "null");
    Card card(kFirst);
    std::vector<unsigned char> data(1000);
    const uint64_t host = card.map(data), device = card.memory();
    card.run(kDown, Packets().copy(host, device, 1000).copy(host, device, 1000).copy(device, host, 30));
    card.run(kOnCard, Packets().fill(1, device, 7));
    const nlohmann::json counted = stat(0);
    for (const char *made : {"down_bytes", "up_bytes", "card_bytes", "host_bytes", "fill_bytes"})
        EXPECT_EQ(counted[made], 0u) << made;
    EXPECT_EQ(counted["not_made_bytes"], 2037u);
}

TEST_F(Counter, copies_within_the_budget_of_null_pace_are_counted_as_made) {
    set("SOFTGAUDI_PACE", "null:1");
    Card card(kFirst);
    std::vector<unsigned char> data(kMiB);
    const uint64_t host = card.map(data), device = card.memory();
    card.run(kDown, Packets().copy(host, device, kMiB).copy(host, device, 10));
    const nlohmann::json counted = stat(0);
    EXPECT_EQ(counted["down_bytes"], kMiB);
    EXPECT_EQ(counted["not_made_bytes"], 10u);
}

TEST_F(Counter, copies_of_a_skipped_submission_are_counted_as_not_made) {
    set("SOFTGAUDI_PACE", "virtual:down:1");
    set("SOFTGAUDI_FAULTS", "command_submission#2=skip");
    Card card(kFirst);
    std::vector<unsigned char> data(1000);
    const uint64_t host = card.map(data), device = card.memory();
    card.run(kDown, Packets().copy(host, device, 300));
    card.run(kDown, Packets().copy(host, device, 20));
    const nlohmann::json counted = stat(0);
    EXPECT_EQ(counted["down_bytes"], 300u);
    EXPECT_EQ(counted["not_made_bytes"], 20u);
}

TEST_F(Counter, submissions_and_packets_are_counted) {
    Card card(kFirst);
    const uint64_t nested = card.place(Packets().nop().nop());
    card.run(kDown, Packets().nop().nop().nop());
    card.run(kDown, Packets().nested(nested, 16).nop());
    const nlohmann::json counted = stat(0);
    EXPECT_EQ(counted["submissions"], 2u);
    EXPECT_EQ(counted["packets"], 3u + 2 + 2);
}

TEST_F(Counter, maps_and_exports_are_counted) {
    Card card(kFirst);
    std::vector<unsigned char> data(1000);
    card.map(data);
    const uint64_t device = card.memory();
    EXPECT_EQ(hlthunk_device_memory_map(card.fd, 999, 0), 0u);
    const int exported = hlthunk_device_memory_export_dmabuf_fd(card.fd, device, 4096, 0);
    EXPECT_GE(exported, 0);
    EXPECT_EQ(hlthunk_device_memory_export_dmabuf_fd(card.fd, device + 4096, 4096, 0), -EINVAL);
    const nlohmann::json counted = stat(0);
    EXPECT_EQ(counted["maps"], 2u);
    EXPECT_EQ(counted["exports"], 1u);
    EXPECT_EQ(counted["dram_used_bytes"], kPage);
    close(exported);
}

TEST_F(Counter, close_keeps_counts_and_clears_in_use) {
    {
        Card card(kFirst);
        card.memory();
        EXPECT_EQ(stat(0)["in_use"], true);
    }
    const nlohmann::json counted = stat(0);
    EXPECT_EQ(counted["in_use"], false);
    EXPECT_EQ(counted["dram_used_bytes"], 0u);
    EXPECT_EQ(counted["opens"], 1u);
    EXPECT_EQ(calls(counted, "device_memory_alloc"), 1u);
    EXPECT_EQ(calls(counted, "close"), 1u);
}

TEST_F(Counter, reading_leaves_counts_unchanged) {
    Card card(kFirst);
    const uint64_t device = card.memory();
    const nlohmann::json once = stat();
    EXPECT_EQ(stat(), once);
    card.run(kOnCard, Packets().fill(1, device, 100)); // the memory is still mapped
}

TEST_F(Counter, second_directory_has_its_own_counts) {
    Card card(kFirst);
    const FreshDirectory other("SOFTGAUDI_DIR", "softgaudi");
    Child program([](int) { return hlthunk_get_device_count(HLTHUNK_DEVICE_DONT_CARE) == 8 ? 0 : 1; });
    EXPECT_EQ(program.join(), 0);
    EXPECT_EQ(stat(0)["in_use"], false);
}

TEST_F(Counter, plain_report_lists_used_counters) {
    Card card(kFirst);
    card.memory();
    const Output output = run_stat("");
    EXPECT_EQ(output.code, 0);
    EXPECT_NE(output.text.find("card 3 (0000:19:00.0, accel0), in use"), std::string::npos) << output.text;
    EXPECT_NE(output.text.find("hlthunk_device_memory_alloc"), std::string::npos) << output.text;
    EXPECT_EQ(output.text.find("card 2"), std::string::npos) << output.text;
}

TEST_F(Counter, wrong_setting_fails_the_program) {
    set("SOFTGAUDI_CARDS", "many");
    const Output output = run_stat("--json");
    EXPECT_EQ(output.code, 1);
    EXPECT_NE(output.text.find("SOFTGAUDI_CARDS"), std::string::npos) << output.text;
}

} // namespace

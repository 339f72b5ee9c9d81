// SPDX-License-Identifier: BSD-3-Clause
// The parser of what UCX prints with UCX_PROTO_INFO=y, on the output of UCX 1.22 (RDMA) and 1.23 (tcp) for a tagged message
// of 1 MiB from card to card, and on text that is no such output.
#include "cli/explain/proto_info.h"

#include <gmock/gmock.h>

#include <fstream>
#include <iterator>

namespace gaudi::cli::explain {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::string read(const std::string &name) {
    std::ifstream file(EXPLAIN_TEXTS "/" + name);
    EXPECT_TRUE(file) << name;
    return {std::istreambuf_iterator<char>(file), {}};
}

constexpr std::uint64_t kMiB = 1 << 20;

TEST(ProtocolInfo, sender_of_1_22_has_ranges_and_lanes) {
    const ProtocolInfo info = parse_protocol_info(read("proto_info_1.22_sender.txt"));
    EXPECT_THAT(info.unknown, IsEmpty());
    ASSERT_THAT(info.tables, SizeIs(2)); // the empty one is none
    const ProtocolTable *table = find_table(info.tables, {"ucp_tag_send* ", "from gaudi memory"});
    ASSERT_NE(table, nullptr);
    ASSERT_THAT(table->ranges, SizeIs(3));
    EXPECT_EQ(table->ranges[0].first, 0);
    EXPECT_EQ(table->ranges[0].last, 0);
    EXPECT_EQ(table->ranges[0].protocol, "eager short");
    EXPECT_FALSE(table->ranges[0].estimated);
    EXPECT_EQ(table->ranges[1].last, 129);
    const ProtocolRange *range = table->find(kMiB);
    ASSERT_EQ(range, &table->ranges[2]);
    EXPECT_EQ(range->last, kNoLimit);
    EXPECT_TRUE(range->estimated);
    EXPECT_EQ(range->protocol, "rendezvous zero-copy read from remote");
    EXPECT_EQ(range->lanes, "50% on rc_verbs/softhca0:1 and 50% on rc_verbs/softhca1:1");
}

TEST(ProtocolInfo, receiver_of_1_22_has_the_fetch) {
    const ProtocolInfo info = parse_protocol_info(read("proto_info_1.22_receiver.txt"));
    const ProtocolTable *table = find_table(info.tables, {"rendezvous data fetch"});
    ASSERT_NE(table, nullptr);
    EXPECT_EQ(table->title, "rendezvous data fetch into gaudi memory from gaudi");
    ASSERT_NE(table->find(kMiB), nullptr);
    EXPECT_TRUE(is_zero_copy(table->find(kMiB)->protocol));
    EXPECT_EQ(table->find(0)->lanes, "");
}

TEST(ProtocolInfo, both_sides_of_1_23_have_the_pipeline) {
    const ProtocolInfo sender = parse_protocol_info(read("proto_info_1.23_sender.txt"));
    const ProtocolInfo receiver = parse_protocol_info(read("proto_info_1.23_receiver.txt"));
    EXPECT_THAT(sender.unknown + receiver.unknown, IsEmpty());
    const ProtocolTable *table = find_table(sender.tables, {"ucp_tag_send* ", "from gaudi memory"});
    ASSERT_NE(table, nullptr);
    EXPECT_EQ(table->find(512 << 10)->protocol,
              "rendezvous gaudi_cpy, fenced write to remote, frag host, gaudi_cpy, frag host");
    EXPECT_FALSE(is_zero_copy(table->find(kMiB)->protocol));
    const ProtocolTable *fetch = find_table(receiver.tables, {"rendezvous data fetch"});
    ASSERT_NE(fetch, nullptr);
    EXPECT_EQ(fetch->find(kMiB)->first, 524289);
    EXPECT_FALSE(fetch->find(kMiB)->estimated);
}

TEST(ProtocolInfo, text_without_tables_is_empty) {
    for (const char *text :
         {"", "\n\n", "[1.2] [node1:1:0] parser.c:1 UCX  WARN  unused variable", "no + table | here"}) {
        const ProtocolInfo info = parse_protocol_info(text);
        EXPECT_THAT(info.tables, IsEmpty()) << text;
        EXPECT_THAT(info.unknown, IsEmpty()) << text;
    }
}

TEST(ProtocolInfo, table_of_another_form_is_kept_as_text) {
    const std::string rule = "+---+---+\n";
    for (const std::string &box : {
             rule + "| Size | Protocol |\n" + rule + "| 1 | zcopy |\n" + rule, // no title
             rule + "| t |\n" + rule + "| Range | Description |\n" + rule,     // two columns
             rule + "| t |\n" + rule + "| Range | Description | Config |\n",   // ends too early
             rule + "| t |\n" + rule + "| Range | Description | Config |\n" + rule + "| x..y | a | b |\n" + rule,
             rule + "| t |\n" + rule + "| Range | Description | Config |\n" + rule + "| 9..1 | a | b |\n" + rule,
             rule + "| t |\n" + rule + "| Range | Description | Config |\n" + rule +
                 "| 99999999999999999999 | a | b |\n",
             rule + "| t |\n" + rule + "| Range | Description | Config |\n" + rule + "| 17179869184G | a | b |\n" +
                 rule,
             std::string("|||||\n"),
         }) {
        const ProtocolInfo info = parse_protocol_info(box);
        EXPECT_THAT(info.tables, IsEmpty()) << box;
        EXPECT_THAT(info.unknown, HasSubstr(box.substr(0, box.find('\n')))) << box;
    }
}

TEST(ProtocolInfo, table_behind_garbage_is_found) {
    const std::string good = read("proto_info_1.22_receiver.txt");
    const ProtocolInfo info = parse_protocol_info("+--+\n| what | is | this |\n\n" + good);
    EXPECT_THAT(info.unknown, HasSubstr("| what | is | this |"));
    EXPECT_NE(find_table(info.tables, {"rendezvous data fetch"}), nullptr);
}

TEST(ProtocolInfo, every_cut_of_a_log_is_no_crash) {
    const std::string log = read("proto_info_1.23_receiver.txt");
    for (std::size_t length = 0; length < log.size(); length += 7)
        EXPECT_LE(parse_protocol_info(log.substr(0, length)).tables.size(), 2);
}

TEST(Request, protocol_and_lanes_are_told_apart_by_the_table) {
    const ProtocolInfo info = parse_protocol_info(read("proto_info_1.22_sender.txt"));
    const ProtocolTable *table = find_table(info.tables, {"ucp_tag_send* ", "from gaudi memory"});
    const std::string text =
        "{proto|init|rk_use} tag_send from gaudi memory length 1048576 rendezvous zero-copy read from remote 50% on "
        "rc_verbs/softhca0:1 and 50% on rc_verbs/softhca1:1 39752.4 MB/s 25.16 us";
    const RequestInfo request = parse_request(text, table, kMiB);
    EXPECT_EQ(request.protocol, "rendezvous zero-copy read from remote");
    EXPECT_EQ(request.lanes, "50% on rc_verbs/softhca0:1 and 50% on rc_verbs/softhca1:1");
    EXPECT_EQ(parse_request(text, nullptr, kMiB).protocol, request.protocol + " " + request.lanes);
    EXPECT_EQ(parse_request("what is this", table, kMiB).protocol, "what is this");
    EXPECT_EQ(parse_request("", table, kMiB).protocol, "");
}

TEST(Request, lanes_have_shares) {
    EXPECT_THAT(parse_lanes("52% on tcp/lo and 48% on tcp/eth0"),
                ElementsAre(Field(&Lane::percent, 52), Field(&Lane::percent, 48)));
    EXPECT_THAT(parse_lanes("rc_verbs/mlx5_0:1"), ElementsAre(Field(&Lane::name, "rc_verbs/mlx5_0:1")));
    EXPECT_THAT(parse_lanes("rc_verbs/mlx5_0:1"), ElementsAre(Field(&Lane::percent, 100)));
    EXPECT_THAT(parse_lanes("12%% of nothing"), IsEmpty());
}

TEST(Request, copies_are_no_zero_copy) {
    EXPECT_TRUE(is_zero_copy("zero-copy fenced write to remote"));
    for (const char *words :
         {"eager zero-copy copy-out", "copy-in", "software emulation", "fragmented copy-in copy-out",
          "pipeline gaudi_cpy, fenced write to remote, frag host", ""})
        EXPECT_FALSE(is_zero_copy(words)) << words;
}

} // namespace
} // namespace gaudi::cli::explain

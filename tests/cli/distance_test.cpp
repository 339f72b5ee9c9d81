// SPDX-License-Identifier: BSD-3-Clause
// What UCX makes of `ucx_gaudi run --hca --topology`: how far each card is from each HCA.
#include "command.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <sstream>

namespace cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

using Row = std::map<std::string, std::string>; // by the other device

std::vector<std::string> cells(const std::string &line) {
    std::vector<std::string> out;
    std::istringstream in(line);
    for (std::string cell; std::getline(in, cell, '|');) {
        std::istringstream words(cell);
        std::string word;
        words >> word;
        out.push_back(word);
    }
    out.erase(out.begin()); // the comment sign
    return out;
}

/// The first table that `ucx_info -T` prints: bandwidths between devices, by both of their names.
std::map<std::string, Row> distances(const std::string &text) {
    std::map<std::string, Row> table;
    std::vector<std::string> names;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line) && !line.starts_with("# NUMA");) {
        if (!line.starts_with("# |"))
            continue;
        const std::vector<std::string> row = cells(line);
        if (row.front() == "MB/s")
            names = row;
        else if (!row.front().empty())
            for (std::size_t i = 1; i < std::min(row.size(), names.size()); ++i)
                table[row.front()][names[i]] = row[i];
    }
    return table;
}

int socket_of(const std::string &hca) { return hca == "softhca1" || hca == "softhca3" ? 1 : 0; }

class Distance : public ::testing::TestWithParam<const char *> {
protected:
    static std::map<std::string, Row> on(Words options) {
        options.insert(options.begin(), {"--ucx", GetParam()});
        const Result got = result(run(std::move(options), {"ucx_info", "-T"}));
        EXPECT_EQ(got.code, 0) << got.err;
        EXPECT_EQ(got.err, kSoftwareWithHca);
        EXPECT_THAT(got.out, Not(HasSubstr("WARN")));
        return distances(got.out);
    }
};

TEST_P(Distance, near_hca_is_closer_than_far_hca) {
    auto table = on({"--hca", "4", "--topology"});
    ASSERT_EQ(table.size(), 12u); // 8 cards and 4 HCAs
    const std::map<std::string, std::vector<std::string>> cards_of = {{"softhca0", {"GAUDI_2", "GAUDI_3"}},
                                                                      {"softhca1", {"GAUDI_6", "GAUDI_7"}},
                                                                      {"softhca2", {"GAUDI_0", "GAUDI_1"}},
                                                                      {"softhca3", {"GAUDI_4", "GAUDI_5"}}};
    for (const auto &[near, cards] : cards_of)
        for (const std::string &card : cards)
            for (const auto &[other, unused] : cards_of) {
                const bool same_socket = socket_of(near) == socket_of(other);
                EXPECT_EQ(table[card][other], other == near ? "inf"
                                              : same_socket ? "17000.0"
                                                            : "220.0")
                    << card << ' ' << other;
            }
}

TEST_P(Distance, without_topology_all_devices_are_equally_near) {
    for (const auto &[device, row] : on({"--hca"}))
        for (const auto &[other, bandwidth] : row)
            EXPECT_EQ(bandwidth, other == device ? "-" : "inf") << device << ' ' << other;
}

// Only these engines have UCX's ib module.
INSTANTIATE_TEST_SUITE_P(Ucx, Distance, ::testing::Values("nixl-1.22", "nixl-1.23"), [](const auto &one) {
    std::string name = one.param;
    std::erase_if(name, [](char letter) { return letter == '-' || letter == '.'; });
    return name;
});

} // namespace
} // namespace cli

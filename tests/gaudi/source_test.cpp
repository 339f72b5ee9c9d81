// SPDX-License-Identifier: BSD-3-Clause
// The processor cannot map a card's dma-buf, but it can map softgaudi's: the product must not rely on that.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

namespace {

struct Call {
    std::string file, arguments;
};

/// Each call of mmap in the product's sources, with its arguments.
std::vector<Call> find_mmap_calls() {
    const std::filesystem::path root = std::filesystem::path(SOURCE_DIR) / "src";
    std::vector<Call> calls;
    for (const auto &entry : std::filesystem::recursive_directory_iterator(root)) {
        const std::string layer = std::filesystem::relative(entry.path(), root).begin()->string();
        if (layer == "cli" || layer == "record") // programs and the recorder map files of their own
            continue;
        const std::string extension = entry.path().extension();
        if (extension != ".cpp" && extension != ".h" && extension != ".c")
            continue;
        std::ostringstream text;
        text << std::ifstream(entry.path()).rdbuf();
        const std::string source = text.str();
        static const std::regex call(R"(\bmmap(64)?\s*\(([^;]*)\);)");
        for (std::sregex_iterator found(source.begin(), source.end(), call), end; found != end; ++found)
            calls.push_back({std::filesystem::relative(entry.path(), root).string(), (*found)[2].str()});
    }
    return calls;
}

TEST(Source, mmap_calls_map_no_descriptor) {
    const std::vector<Call> calls = find_mmap_calls();
    std::vector<std::string> files;
    for (const Call &call : calls) {
        files.push_back(call.file);
        EXPECT_THAT(call.arguments, ::testing::HasSubstr("MAP_ANONYMOUS")) << call.file;
        EXPECT_THAT(call.arguments, ::testing::HasSubstr("-1, 0")) << call.file << ": it maps a descriptor";
    }
    EXPECT_THAT(files, ::testing::UnorderedElementsAre("gaudi/copy/cs_engine.cpp", "gaudi/memory/heap.cpp",
                                                       "gaudi/host/bounce_ring.cpp"));
}

} // namespace

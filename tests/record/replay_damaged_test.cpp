// SPDX-License-Identifier: BSD-3-Clause
// ucx_gaudi replay of damaged recordings. Every field of a file is untrusted: whatever it holds, a replay ends with an
// answer of its own. The replays run in this process, where a sanitizer sees what they and softgaudi do.
#include "cli/replay_calls.h"
#include "recorded.h"

#include <sys/resource.h>

#include <cstddef>
#include <random>
#include <vector>

namespace {

using namespace recorded;
using gaudi::cli::Recording;
using gaudi::cli::ReplayLibrary;
using gaudi::record::Function;
using gaudi::record::Piece;
using gaudi::record::PieceKind;

constexpr unsigned kRounds = 200;

class ReplayDamaged : public Record {
protected:
    /// What `ucx_gaudi replay` would return, and print.
    cli::Result replay_here() {
        const auto recording = Recording::read(m_file);
        if (!recording)
            return {2, "", recording.error()};
        if (!m_library) {
            soft::set("GAUDI_THUNK", SOFTGAUDI_LIBRARY);
            soft::set("SOFTGAUDI_CARDS", "1");
            soft::set("SOFTGAUDI_PACE", "virtual:down:25"); // a damaged packet that waits for ever costs no time
            auto library = ReplayLibrary::find();
            if (!library)
                throw std::runtime_error(library.error());
            m_library = std::move(*library);
        }
        ::testing::internal::CaptureStdout();
        const int code = gaudi::cli::replay_calls(*m_library, *recording, false);
        return {code, ::testing::internal::GetCapturedStdout(), ""};
    }
    void expect_end(const std::string &what) {
        const cli::Result got = replay_here();
        if (got.code == 2) {
            EXPECT_EQ(got.err.find('\n'), std::string::npos) << what << ": " << got.err;
            EXPECT_THAT(got.err, HasSubstr(file())) << what;
            ++m_refused;
        } else {
            EXPECT_TRUE(got.code == 0 || got.code == 1) << what << ": " << got.code;
            EXPECT_THAT(got.out, HasSubstr("replayed ")) << what;
        }
    }
    /// Where the call records of a function start in the file.
    std::vector<std::size_t> offsets_of(Function function) const {
        std::vector<std::size_t> found;
        const Recording recording = read();
        const std::string bytes = contents();
        for (const auto *call : recording.calls())
            if (call->function == function)
                found.push_back(bytes.find({reinterpret_cast<const char *>(call->head), sizeof *call->head}));
        return found;
    }

    unsigned m_refused = 0;

private:
    const soft::FreshDirectory m_directory{"SOFTGAUDI_DIR", "softgaudi"};
    std::optional<ReplayLibrary> m_library;
};

TEST_F(ReplayDamaged, whole_file_replays_here_too) {
    ASSERT_EQ(record("copy"), 0) << m_printed;
    const cli::Result got = replay_here();
    EXPECT_EQ(got.code, 0) << got.out << got.err;
}

TEST_F(ReplayDamaged, truncated_file_is_refused_at_every_length) {
    ASSERT_EQ(record("copy"), 0) << m_printed;
    const std::string whole = contents();
    for (std::size_t size = 0; size < whole.size(); size += size < 256 ? 1 : 101) {
        write(whole.substr(0, size));
        EXPECT_EQ(replay_here().code, 2) << size;
    }
}

/// As if the recorder were still at work, so that the head does not tell where the file ends.
TEST_F(ReplayDamaged, file_cut_at_any_byte_ends) {
    ASSERT_EQ(record("nested"), 0) << m_printed;
    const std::string whole = contents();
    for (std::size_t size = sizeof(gaudi::record::Head); size < whole.size(); size += 509) {
        std::string bytes = whole.substr(0, size);
        auto &head = *reinterpret_cast<gaudi::record::Head *>(bytes.data());
        head.end = 0;
        head.limit = head.cursor = size;
        write(bytes);
        expect_end("cut at " + std::to_string(size));
    }
}

TEST_F(ReplayDamaged, changed_bytes_end) {
    for (const char *name : {"copy", "nested", "duplicates", "descriptors"}) {
        ASSERT_EQ(record(name), 0) << m_printed;
        const std::string whole = contents();
        std::mt19937 random(7);
        for (unsigned round = 0; round < kRounds; ++round) {
            std::string bytes = whole;
            // One byte or many, and often of the highest of a word: lengths and counts become huge.
            for (unsigned changes = 1 + random() % 4; changes > 0; --changes) {
                const std::size_t at = sizeof(gaudi::record::Head) + random() % (bytes.size() - 64);
                bytes[at] = random() % 2 == 0 ? static_cast<char>(bytes[at] ^ 1 << random() % 8)
                                              : static_cast<char>(random() % 4 == 0 ? 0xFF : random());
            }
            write(bytes);
            expect_end(std::string(name) + " in round " + std::to_string(round));
        }
        EXPECT_LT(m_refused, kRounds); // most damage is in contents, which only a replay meets
        m_refused = 0;
    }
}

/// Each argument of each call in turn is huge.
TEST_F(ReplayDamaged, huge_arguments_end) {
    for (const char *name : {"copy", "descriptors"}) {
        ASSERT_EQ(record(name), 0) << m_printed;
        const std::string whole = contents();
        const Recording recording = read();
        for (const auto *call : recording.calls()) {
            const std::size_t at = whole.find({reinterpret_cast<const char *>(call->head), sizeof *call->head});
            for (std::size_t i = 0; i < call->arguments.size(); ++i)
                for (const std::uint64_t value : {UINT64_MAX, UINT64_MAX / 2, std::uint64_t{1} << 40,
                                                  std::uint64_t{0xFFFFFFFF}, std::uint64_t{0x80000000}}) {
                    if (call->function == Function::host_memory_map && value >> 40 == 0)
                        continue; // a length that a machine has, and would fill
                    std::string bytes = whole;
                    std::memcpy(bytes.data() + at + sizeof *call->head + 8 * i, &value, sizeof value);
                    write(bytes);
                    expect_end(std::string(name) + ", byte " + std::to_string(at));
                }
        }
    }
}

/// A submission that claims more chunks than the file has.
TEST_F(ReplayDamaged, chunk_counts_beyond_the_chunks_are_not_replayed) {
    ASSERT_EQ(record("copy"), 0) << m_printed;
    const std::string whole = contents();
    const auto submissions = offsets_of(Function::command_submission);
    ASSERT_FALSE(submissions.empty());
    for (const std::size_t field :
         {offsetof(hlthunk_cs_in, num_chunks_restore), offsetof(hlthunk_cs_in, num_chunks_execute)})
        for (const std::uint32_t count : {2u, 512u}) {
            std::string bytes = whole;
            const std::size_t in = submissions[0] + sizeof(gaudi::record::Record) + 3 * 8 + sizeof(Piece);
            std::memcpy(bytes.data() + in + field, &count, sizeof count);
            const std::uint64_t pointer = 4096; // both arrays are named, and restored
            std::memcpy(bytes.data() + in + offsetof(hlthunk_cs_in, chunks_restore), &pointer, sizeof pointer);
            const std::uint32_t flags = HL_CS_FLAGS_FORCE_RESTORE;
            std::memcpy(bytes.data() + in + offsetof(hlthunk_cs_in, flags), &flags, sizeof flags);
            write(bytes);
            EXPECT_THAT(replay_here().out, HasSubstr("its packets are not in the recording"));
        }
}

/// The card would map, and with it fill, all of the memory.
TEST_F(ReplayDamaged, host_memory_beyond_the_machine_is_not_replayed) {
    ASSERT_EQ(record("copy"), 0) << m_printed;
    const auto maps = offsets_of(Function::host_memory_map);
    ASSERT_FALSE(maps.empty());
    std::string bytes = contents();
    const std::uint64_t length = std::uint64_t{1} << 39;
    std::memcpy(bytes.data() + maps[0] + sizeof(gaudi::record::Record) + 3 * 8, &length, sizeof length);
    write(bytes);
    EXPECT_THAT(replay_here().out, HasSubstr("there is not enough host memory"));
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    EXPECT_LT(usage.ru_maxrss, 4 << 20); // KiB
}

/// The head claims more than the file has, or an endless file stands in its place.
TEST_F(ReplayDamaged, size_in_the_head_is_not_believed) {
    ASSERT_EQ(record("copy"), 0) << m_printed;
    std::string bytes = contents();
    reinterpret_cast<gaudi::record::Head *>(bytes.data())->end = std::uint64_t{1} << 60;
    write(bytes);
    EXPECT_THAT(replay_here().err, HasSubstr(" is truncated: it has "));
    EXPECT_EQ(Recording::read("/dev/zero").error(), "/dev/zero is not a recording of ucx_gaudi");
    for (const std::uint64_t first : {std::uint64_t{0}, std::uint64_t{8}, std::uint64_t{48}, UINT64_MAX - 7}) {
        bytes = contents();
        reinterpret_cast<gaudi::record::Head *>(bytes.data())->first = first;
        write(bytes);
        EXPECT_THAT(replay_here().err, HasSubstr(" is damaged: there is no record at byte "));
    }
}

} // namespace

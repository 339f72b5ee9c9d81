// SPDX-License-Identifier: BSD-3-Clause
// ucx_gaudi replay: the same answers, or the call that answered differently.
#include "recorded.h"

#include <cstring>

namespace {

using namespace recorded;
using gaudi::record::Function;

class Replay : public Record {
protected:
    /// Changes the first recorded call of this function.
    template <class Change>
    void change(Function function, Change &&edit) {
        const gaudi::cli::Recording recording = read();
        std::string bytes = contents();
        for (const auto *call : recording.calls())
            if (call->function == function) {
                // The record in the file is found by its contents, which times make unique.
                const std::string_view head(reinterpret_cast<const char *>(call->head), sizeof *call->head);
                const std::size_t at = bytes.find(head);
                ASSERT_NE(at, std::string::npos);
                edit(*reinterpret_cast<gaudi::record::Record *>(bytes.data() + at), bytes.data() + at);
                write(bytes);
                return;
            }
        FAIL() << "no such call";
    }
    void expect_mistake(const std::string &sentence) const {
        const cli::Result got = replay();
        EXPECT_EQ(got.code, 2);
        EXPECT_THAT(got.err, HasSubstr("ucx_gaudi: " + file() + " " + sentence)) << sentence;
        EXPECT_EQ(got.out, "");
    }
};

TEST_F(Replay, answers_are_those_of_the_recording) {
    for (const char *name : {"copy", "nested", "threads", "fork", "dlsym", "duplicates", "descriptors", "_exit"}) {
        ASSERT_EQ(record(name), 0) << m_printed;
        const cli::Result got = replay();
        EXPECT_EQ(got.code, 0) << name << '\n' << got.out << got.err;
        EXPECT_THAT(got.out, HasSubstr(": no answer differs\n"));
    }
}

TEST_F(Replay, runs_on_softgaudi_by_itself) {
    ASSERT_EQ(record("copy"), 0) << m_printed;
    const cli::Result got = cli::result({"replay", file()});
    EXPECT_EQ(got.code, 0) << got.out;
    EXPECT_EQ(got.err, cli::kSoftware);
}

TEST_F(Replay, changed_status_is_reported_at_its_call) {
    ASSERT_EQ(record("threads"), 0) << m_printed;
    change(Function::get_device_status_info, [](gaudi::record::Record &head, char *) { head.result = 2; });
    const cli::Result got = replay();
    EXPECT_EQ(got.code, 1);
    EXPECT_THAT(got.out, HasSubstr("): hlthunk_get_device_status_info("));
    EXPECT_THAT(got.out, HasSubstr("): recorded 2, replayed 0\n"));
    EXPECT_THAT(got.out, HasSubstr(": answers that differ: 1\n"));
}

TEST_F(Replay, changed_error_is_reported_at_its_call) {
    ASSERT_EQ(record("duplicates"), 0) << m_printed;
    change(Function::memory_unmap, [](gaudi::record::Record &head, char *) {
        head.result = static_cast<std::uint64_t>(-EPERM);
        head.error = EPERM;
    });
    EXPECT_THAT(replay().out, HasSubstr("0x1000): recorded EPERM, replayed EINVAL\n"));
}

TEST_F(Replay, refused_submission_is_reported_at_its_call) {
    ASSERT_EQ(record("copy"), 0) << m_printed;
    change(Function::command_submission, [](gaudi::record::Record &head, char *) {
        head.result = static_cast<std::uint64_t>(-EIO);
        head.error = EIO;
    });
    EXPECT_THAT(replay().out, HasSubstr("recorded EIO, replayed success\n"));
}

TEST_F(Replay, changed_structure_is_reported_at_its_call) {
    ::setenv("SOFTGAUDI_MODEL", "gaudi3", 1);
    const cli::Result got = cli::result(
        cli::run({"--cards", "1"}, {UCX_GAUDI_COMMAND, "record", "-o", file(), "--", UCX_GAUDI_COMMAND, "info"}));
    ASSERT_EQ(got.code, 0) << got.err;
    ::unsetenv("SOFTGAUDI_MODEL");
    const cli::Result replayed = replay(); // on a Gaudi2
    EXPECT_EQ(replayed.code, 1);
    EXPECT_THAT(replayed.out, HasSubstr(" of the structure in argument 2 was "));
    EXPECT_EQ(cli::result({"replay", file()}).code, 0); // which takes the recorded model
}

TEST_F(Replay, busy_polls_are_no_difference) {
    ASSERT_EQ(record("copy"), 0) << m_printed;
    change(Function::wait_for_cs, [](gaudi::record::Record &head, char *at) {
        auto *piece = reinterpret_cast<gaudi::record::Piece *>(at + sizeof head + 8 * head.arguments);
        const std::uint32_t busy = HL_WAIT_CS_STATUS_BUSY;
        std::memcpy(piece + 1, &busy, sizeof busy);
    });
    const cli::Result got = replay();
    EXPECT_EQ(got.code, 0) << got.out;
}

TEST_F(Replay, other_wait_status_is_reported) {
    ASSERT_EQ(record("copy"), 0) << m_printed;
    change(Function::wait_for_cs, [](gaudi::record::Record &head, char *at) {
        auto *piece = reinterpret_cast<gaudi::record::Piece *>(at + sizeof head + 8 * head.arguments);
        const std::uint32_t aborted = HL_WAIT_CS_STATUS_ABORTED;
        std::memcpy(piece + 1, &aborted, sizeof aborted);
    });
    EXPECT_THAT(replay().out, HasSubstr("recorded status aborted, replayed status completed\n"));
}

TEST_F(Replay, bad_file_is_one_sentence) {
    const cli::Result missing = replay();
    EXPECT_EQ(missing.code, 2);
    EXPECT_THAT(missing.err, HasSubstr("ucx_gaudi: cannot read " + file() + ": No such file or directory\n"));
    write("");
    expect_mistake("is empty\n");
    write("#!/bin/sh\necho this is a script\n");
    expect_mistake("is not a recording of ucx_gaudi\n");
    ASSERT_EQ(record("copy"), 0) << m_printed;
    const std::string whole = contents();
    write(whole.substr(0, 20));
    expect_mistake("is truncated: it ends within its head\n");
    write(whole.substr(0, whole.size() - 100));
    expect_mistake("is truncated: it has ");
    std::string other = whole;
    other[8] = 9;
    write(other);
    expect_mistake("has version 9 of the format, and this ucx_gaudi reads version 1\n");
    std::string damaged = whole;
    const std::size_t at = damaged.find("GREC", damaged.size() / 2);
    ASSERT_NE(at, std::string::npos);
    damaged[at] = 'X';
    write(damaged);
    expect_mistake("is damaged: there is no record at byte ");
    EXPECT_EQ(cli::result({"replay"}).code, 2);
}

TEST_F(Replay, library_of_a_card_is_refused) {
    ASSERT_EQ(record("copy"), 0) << m_printed;
    ::setenv("GAUDI_THUNK", FAKE_THUNK, 1);
    ::setenv("ASAN_OPTIONS", "detect_leaks=0", 1); // the fake's free() frees nothing
    const cli::Result got = cli::result({"replay", file()});
    EXPECT_EQ(got.code, 2);
    EXPECT_THAT(got.err, HasSubstr("replay makes calls on softgaudi only, and GAUDI_THUNK names " FAKE_THUNK));
}

} // namespace

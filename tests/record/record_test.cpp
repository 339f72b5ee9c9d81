// SPDX-License-Identifier: BSD-3-Clause
// ucx_gaudi record: every call of every kind of program is in the file, and no copied data.
#include "recorded.h"

#include "record/packets.h"

#include <cstring>
#include <set>

namespace {

using namespace recorded;
using gaudi::record::Function;
using gaudi::record::kCalls;
using gaudi::record::PieceKind;

TEST_F(Record, every_function_is_forwarded_and_recorded) {
    ::setenv("GAUDI_THUNK", FAKE_THUNK, 1);
    const cli::Result got = cli::result({"record", "-o", file(), "--", PROGRAM, "all"});
    ASSERT_EQ(got.code, 0) << got.err;
    const gaudi::cli::Recording recording = read();
    const auto calls = recording.calls();
    ASSERT_EQ(calls.size(), gaudi::record::kCallCount);
    for (std::size_t i = 0; i < calls.size(); ++i) {
        SCOPED_TRACE(kCalls[i].name);
        const gaudi::cli::RecordedCall &call = *calls[i];
        EXPECT_EQ(call.function, static_cast<Function>(i));
        EXPECT_EQ(call.arguments.size(), kCalls[i].arity);
        EXPECT_EQ(call.head->error, static_cast<int>(i + 1));
        EXPECT_LE(call.head->start_ns, call.head->end_ns);
        EXPECT_EQ(call.head->process, call.head->thread);
        const bool has_value = kCalls[i].answer != gaudi::record::Answer::nothing &&
                               kCalls[i].answer != gaudi::record::Answer::text && kCalls[i].name != "malloc" &&
                               kCalls[i].name != "is_device_idle";
        if (has_value) {
            EXPECT_EQ(call.head->result, i + 1000);
        }
    }
    EXPECT_EQ(recording.processes(), 1u);
}

std::size_t count_of(const gaudi::cli::Recording &recording, Function function) {
    const auto calls = recording.calls();
    return static_cast<std::size_t>(std::count_if(
        calls.begin(), calls.end(), [&](const gaudi::cli::RecordedCall *call) { return call->function == function; }));
}

/// The opcodes of all packets in the recording.
std::multiset<std::uint32_t> opcodes(const gaudi::cli::Recording &recording) {
    std::multiset<std::uint32_t> found;
    for (const auto *call : recording.calls())
        for (const auto &piece : call->packets)
            if (piece.kind == PieceKind::packets)
                gaudi::record::for_each_packet(
                    piece.bytes.data(), piece.bytes.size(),
                    [&](const gaudi::record::Packet &packet, std::size_t) { found.insert(packet.opcode()); });
    return found;
}

TEST_F(Record, packets_are_stored_and_copied_data_is_not) {
    ASSERT_EQ(record("copy"), 0) << m_printed;
    EXPECT_EQ(opcodes(read()), (std::multiset<std::uint32_t>{9, 9}));
    const std::string bytes = contents();
    EXPECT_EQ(bytes.find("Datamark"), std::string::npos);
    EXPECT_LT(bytes.size(), 65536u); // less than was copied
}

TEST_F(Record, nested_packets_are_stored) {
    ASSERT_EQ(record("nested"), 0) << m_printed;
    EXPECT_EQ(opcodes(read()), (std::multiset<std::uint32_t>{5, 9, 9}));
}

TEST_F(Record, packets_in_memory_that_was_mapped_during_an_unmap_are_stored) {
    ::setenv("GAUDI_THUNK", FAKE_THUNK, 1);
    const cli::Result got = cli::result({"record", "-o", file(), "--", PROGRAM, "race"});
    ASSERT_EQ(got.code, 0) << got.err;
    EXPECT_EQ(opcodes(read()).count(gaudi::record::Packet::nop), 2u);
}

TEST_F(Record, packets_are_stored_after_a_refused_unmap) {
    const cli::Result got =
        cli::result(cli::run({"--cards", "1", "--faults", "memory_unmap#1=EBUSY"},
                             {UCX_GAUDI_COMMAND, "record", "-o", file(), "--", PROGRAM, "refused"}));
    ASSERT_EQ(got.code, 0) << got.err;
    EXPECT_EQ(opcodes(read()).count(gaudi::record::Packet::nop), 1u);
}

/// The constructor of the fake calls hlthunk_get_device_count while the recorder loads it.
TEST_F(Record, call_from_the_constructor_of_the_library_returns) {
    ::setenv("GAUDI_THUNK", FAKE_THUNK, 1);
    ::setenv("FAKE_CALLS_BACK", "1", 1);
    const cli::Result got = cli::result({"record", "-o", file(), "--", PROGRAM, "all"});
    ASSERT_EQ(got.code, 0) << got.err;
    const gaudi::cli::Recording recording = read();
    EXPECT_EQ(recording.calls().front()->function, Function::get_device_count);
}

TEST_F(Record, results_and_structures_are_stored) {
    ASSERT_EQ(record("copy"), 0) << m_printed;
    const gaudi::cli::Recording recording = read();
    bool submitted = false, waited = false;
    for (const auto *call : recording.calls()) {
        if (call->function == Function::command_submission) {
            submitted = true;
            ASSERT_NE(call->find(PieceKind::in, 1), nullptr);
            const auto *out = call->find(PieceKind::out, 2);
            ASSERT_NE(out, nullptr);
            EXPECT_EQ(out->bytes.size(), sizeof(hlthunk_cs_out));
        } else if (call->function == Function::wait_for_cs) {
            waited = true;
            ASSERT_NE(call->find(PieceKind::out, 3), nullptr);
        }
        if (call->function != Function::open) {
            EXPECT_NE(call->head->node, 0u);
        }
    }
    EXPECT_TRUE(submitted && waited);
}

TEST_F(Record, threads_are_told_apart) {
    ASSERT_EQ(record("threads"), 0) << m_printed;
    const gaudi::cli::Recording recording = read();
    EXPECT_EQ(count_of(recording, Function::get_device_status_info), 8u * 500);
    std::set<std::uint32_t> threads;
    for (const auto *call : recording.calls())
        threads.insert(call->head->thread);
    EXPECT_EQ(threads.size(), 8u);
}

TEST_F(Record, forked_children_are_recorded) {
    ASSERT_EQ(record("fork"), 0) << m_printed;
    const gaudi::cli::Recording recording = read();
    EXPECT_EQ(recording.processes(), 4u);
    EXPECT_EQ(count_of(recording, Function::get_device_status_info), 40u);
    std::size_t exits = 0;
    for (const auto &event : recording.events())
        exits += event.is_exit ? 1 : 0;
    EXPECT_EQ(exits, 1u); // children end by _exit
}

TEST_F(Record, calls_by_dlsym_are_recorded) {
    ASSERT_EQ(record("dlsym"), 0) << m_printed;
    EXPECT_EQ(count_of(read(), Function::open_control), 1u);
    EXPECT_EQ(count_of(read(), Function::close), 1u);
}

TEST_F(Record, what_was_written_survives_the_end_of_the_program) {
    for (const auto &[how, code] : {std::pair("_exit", 0), std::pair("abort", 134), std::pair("kill", 137)}) {
        EXPECT_EQ(record(how), code) << m_printed;
        EXPECT_EQ(count_of(read(), Function::get_device_status_info), 100u) << how;
    }
}

TEST_F(Record, full_file_is_cut_with_a_message) {
    const cli::Result got =
        cli::result(cli::run({"--cards", "1"}, {UCX_GAUDI_COMMAND, "record", "-o", file(), "--size", "1", "--",
                                                "/bin/sh", "-c", "for i in 1 2 3 4 5; do " PROGRAM " threads; done"}));
    EXPECT_EQ(got.code, 0);
    EXPECT_THAT(got.err,
                HasSubstr("ucx_gaudi: the recording is cut: " + file() + " is full at 1 MiB and lacks the last "));
    const gaudi::cli::Recording recording = read();
    EXPECT_GT(recording.lost(), 0u);
    EXPECT_GT(recording.calls().size(), 5000u);
    EXPECT_LE(contents().size(), 1u << 20);
    const cli::Result replayed = replay();
    EXPECT_EQ(replayed.code, 0) << replayed.out;
    EXPECT_THAT(replayed.err, HasSubstr("ucx_gaudi: the recording is cut: its last "));
}

TEST_F(Record, exit_code_is_the_programs) {
    EXPECT_EQ(record("none"), 7);
    EXPECT_THAT(m_printed, HasSubstr("ucx_gaudi: no call was recorded: "));
    const cli::Result missing =
        cli::result(cli::run({}, {UCX_GAUDI_COMMAND, "record", "-o", file(), "--", "/no/such"}));
    EXPECT_EQ(missing.code, 127);
}

TEST_F(Record, mistakes_are_one_sentence) {
    const auto expect = [](cli::Words words, int code, const std::string &sentence) {
        const cli::Result got = cli::result(std::move(words));
        EXPECT_EQ(got.code, code) << got.err;
        EXPECT_THAT(got.err, HasSubstr(sentence));
    };
    expect({"record", "--", "true"}, 2, "--output");
    expect({"record", "-o", file()}, 2, "record needs a command after --");
    expect({"record", "-o", file(), "--size", "0", "--", "true"}, 2, "--size");
    expect(cli::run({}, {UCX_GAUDI_COMMAND, "record", "-o", "/", "--", "true"}), 1,
           "cannot write the recording to /: it is not a regular file");
    expect(cli::run({}, {UCX_GAUDI_COMMAND, "record", "-o", "/no/such/file", "--", "true"}), 1,
           "cannot create /no/such/file: No such file or directory");
    expect(cli::run({}, {UCX_GAUDI_COMMAND, "record", "-o", file(), "--", UCX_GAUDI_COMMAND, "record", "-o", "/tmp/x",
                         "--", "true"}),
           1, "a recording to " + file() + " is running already");
    expect(cli::run({}, {UCX_GAUDI_COMMAND, "record", "-o", file(), "--", UCX_GAUDI_COMMAND, "run", "--", "true"}), 1,
           "run inside record would not be recorded");
    expect(cli::run({}, {UCX_GAUDI_COMMAND, "record", "-o", file(), "--size", "1000000", "--", "true"}), 1,
           "choose a smaller --size");
    ::setenv("GAUDI_THUNK", "/no/such/libhl-thunk.so", 1);
    expect({"record", "-o", file(), "--", "true"}, 1,
           "there is nothing to record: GAUDI_THUNK=/no/such/libhl-thunk.so");
}

TEST_F(Record, program_without_a_recorder_file_still_runs) {
    ::setenv("GAUDI_RECORD_THUNK", SOFTGAUDI_LIBRARY, 1);
    ::setenv("GAUDI_RECORD_FILE", "/no/such/file", 1);
    ::setenv("GAUDI_THUNK", RECORDER, 1);
    ::setenv("LD_LIBRARY_PATH", fs::path(RECORDER).parent_path().c_str(), 1);
    const soft::FreshDirectory cards("SOFTGAUDI_DIR", "record");
    const cli::Result got = cli::result({"copy"}, PROGRAM);
    EXPECT_EQ(got.code, 0) << got.err;
    EXPECT_THAT(got.err, HasSubstr(" is not recorded: /no/such/file: No such file or directory"));

    ::setenv("GAUDI_RECORD_FILE", "/etc/passwd", 1);
    EXPECT_THAT(cli::result({"copy"}, PROGRAM).err, HasSubstr("it is no open recording of this version"));
    ::unsetenv("GAUDI_RECORD_THUNK");
    EXPECT_THAT(
        cli::result({"dlsym"}, PROGRAM).err,
        HasSubstr("the recorder has no libhl-thunk to hand calls on to: start the program by ucx_gaudi record"));
}

} // namespace

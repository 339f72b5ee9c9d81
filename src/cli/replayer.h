// SPDX-License-Identifier: BSD-3-Clause
// Makes the calls of a recording, one after the other, with the values of this run in place of the recorded ones.
#pragma once

#include "recording.h"
#include "replay_library.h"
#include "replay_state.h"

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace gaudi::cli {

class Replayer {
public:
    Replayer(const ReplayLibrary &library, const Recording &recording);
    ~Replayer();
    Replayer(const Replayer &) = delete;
    Replayer &operator=(const Replayer &) = delete;

    /// What came of one call.
    struct Outcome {
        bool played = false;
        std::string text; // played: the difference, if any; not played: why
    };
    Outcome play(const RecordedCall &call);
    /// The recorded process ended: its descriptors are closed.
    void end_process(std::uint32_t process);

private:
    using Process = std::map<int, ReplayDescriptor>;

    // Descriptors.
    ReplayDescriptor *find_descriptor(const RecordedCall &call);
    void add_descriptor(const RecordedCall &call, int fd);
    void drop_node(std::uint64_t node);
    void drop(ReplayDescriptor &descriptor);
    ReplayLibrary::Answer open_recorded_card(const RecordedCall &call, ReplayLibrary::Answer got);
    bool overlaps_an_open(const RecordedCall &call) const;

    // Before the call.
    std::optional<std::string> prepare(const RecordedCall &call, const ReplayDescriptor *descriptor);
    void prepare_word(const RecordedCall &call, std::size_t position, ReplayContext &context);
    char *provide(std::size_t slot, std::size_t size, const RecordedPiece *contents = nullptr);
    void limit_time(const RecordedCall &call);
    bool provide_submission(const RecordedCall &call, std::size_t position, ReplayContext &context);
    bool place_packets(const RecordedCall &call, ReplayContext &context);
    bool provide_chunks(const RecordedCall &call, std::size_t slot, record::PieceKind kind, ReplayContext &context,
                        void *&chunks, std::uint32_t count);
    char *provide_sequences(const RecordedCall &call, std::size_t slot, ReplayContext &context);
    void settle(int fd, ReplayContext &context);
    std::uint64_t translate_sequence(ReplayContext &context, std::uint64_t recorded) const;

    // After it.
    std::string compare(const RecordedCall &call, const ReplayLibrary::Answer &got) const;
    void follow(const RecordedCall &call, const ReplayLibrary::Answer &got, ReplayDescriptor *descriptor);
    void follow_written(const RecordedCall &call, ReplayDescriptor &descriptor);
    void forget(const RecordedCall &call, const ReplayDescriptor *descriptor);
    void undo(const RecordedCall &call, const ReplayLibrary::Answer &got, const ReplayDescriptor *descriptor);

    const ReplayLibrary &m_library;
    const Recording &m_recording;
    std::map<std::uint32_t, Process> m_processes;
    std::map<std::pair<std::uint32_t, int>, int> m_notifiers;
    std::map<std::string, std::string> m_bus_ids;
    std::map<std::uint64_t, std::uint32_t> m_modules;             // of nodes
    std::vector<std::pair<std::uint64_t, std::uint64_t>> m_opens; // start and end of those that succeeded
    ReplayContext m_no_context;
    int m_null = -1; // a descriptor of no card

    // Of the call that is being made.
    std::array<std::uint64_t, 8> m_words{};
    std::array<std::vector<std::uint64_t>, 14> m_memory;
    std::shared_ptr<HostCopy> m_host;
};

} // namespace gaudi::cli

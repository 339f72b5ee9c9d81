// SPDX-License-Identifier: BSD-3-Clause
#include "recording.h"

#include "os/format.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <utility>

namespace gaudi::cli {
namespace {

using record::Record;

constexpr std::size_t kReadBytes = 1 << 20; // at once

Sentence describe_damage(const std::string &name, std::uint64_t at) {
    return Sentence(os::format("{} is damaged: there is no record at byte {}", name, at));
}

/// Where the records end, or will end when the program does.
std::uint64_t end_of(const record::Head &head) { return head.end != 0 ? head.end.load() : head.limit; }

/// `bytes`: the beginning of the file, or all of it if it is shorter than a head.
OrSentence<void> check_head(const std::string &name, std::span<const char> bytes) {
    if (bytes.empty())
        return Sentence(os::format("{} is empty", name));
    if (std::memcmp(bytes.data(), record::kMagic, std::min(bytes.size(), sizeof record::kMagic)) != 0)
        return Sentence(os::format("{} is not a recording of ucx_gaudi", name));
    if (bytes.size() < sizeof(record::Head))
        return Sentence(os::format("{} is truncated: it ends within its head", name));
    const auto &head = *reinterpret_cast<const record::Head *>(bytes.data());
    if (head.version != record::kVersion)
        return Sentence(os::format("{} has version {} of the format, and this ucx_gaudi reads version {}", name,
                                   head.version, record::kVersion));
    if (head.first < sizeof(record::Head) || head.first > end_of(head) || head.first % 8 != 0)
        return describe_damage(name, head.first);
    return {};
}

/// Reads the records of a file that is in memory.
class Parser {
public:
    /// The head must have been checked.
    Parser(const std::string &name, std::span<const char> bytes)
        : m_name(name), m_bytes(bytes), m_head(reinterpret_cast<const record::Head *>(bytes.data())) {}

    OrSentence<void> parse();

    std::vector<RecordedCall> events;
    std::set<std::uint32_t> processes;

private:
    Sentence damaged(std::size_t at) const { return describe_damage(m_name, at); }
    OrSentence<void> read_names();
    bool read_record(const Record &record);
    bool read_pieces(const Record &record, std::vector<RecordedPiece> &pieces) const;

    const std::string &m_name;
    const std::span<const char> m_bytes;
    const record::Head *const m_head;
    std::vector<std::optional<record::Function>> m_functions;                                // by number in the file
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<RecordedPiece>> m_packets; // of a thread's next call
};

OrSentence<void> Parser::read_names() {
    const char *at = m_bytes.data() + sizeof(record::Head);
    const char *end = m_bytes.data() + m_head->first;
    for (std::uint32_t i = 0; i < m_head->functions; ++i) {
        const char *stop = std::find(at, end, '\0');
        if (stop == end)
            return damaged(sizeof(record::Head));
        const std::string_view name(at, static_cast<std::size_t>(stop - at));
        const auto *known = std::find_if(std::begin(record::kCalls), std::end(record::kCalls),
                                         [&](const record::Call &call) { return call.name == name; });
        m_functions.push_back(known == std::end(record::kCalls)
                                  ? std::nullopt
                                  : std::optional(static_cast<record::Function>(known - record::kCalls)));
        at = stop + 1;
    }
    return {};
}

bool Parser::read_pieces(const Record &record, std::vector<RecordedPiece> &pieces) const {
    const std::size_t words = record.arguments * sizeof(std::uint64_t);
    if (words > record.size - sizeof(Record))
        return false;
    const char *at = reinterpret_cast<const char *>(&record + 1) + words;
    const char *end = reinterpret_cast<const char *>(&record) + record.size;
    for (unsigned i = 0; i < record.pieces; ++i) {
        record::Piece piece;
        if (static_cast<std::size_t>(end - at) < sizeof piece)
            return false;
        std::memcpy(&piece, at, sizeof piece);
        at += sizeof piece;
        if (static_cast<std::size_t>(end - at) < record::round_up(piece.length))
            return false;
        pieces.push_back({piece.kind, piece.argument, piece.address, {at, piece.length}});
        at += record::round_up(piece.length);
    }
    return true;
}

bool Parser::read_record(const Record &record) {
    processes.insert(record.process);
    const std::pair thread(record.process, record.thread);
    RecordedCall call{&record, record.kind == record::Kind::exit, {}, {}, {}, {}};
    if (!read_pieces(record, call.pieces))
        return false;
    switch (record.kind) {
    case record::Kind::process:
        return true;
    case record::Kind::packets:
        m_packets[thread] = std::move(call.pieces);
        return true;
    case record::Kind::call:
        if (record.function >= m_functions.size())
            return false;
        call.function = m_functions[record.function];
        call.arguments = {reinterpret_cast<const std::uint64_t *>(&record + 1), record.arguments};
        if (call.function && call.arguments.size() != record::kCalls[static_cast<std::size_t>(*call.function)].arity)
            return false;
        call.packets = std::exchange(m_packets[thread], {});
        break;
    case record::Kind::exit:
        break;
    default:
        return true; // of a later minor change of the format
    }
    events.push_back(std::move(call));
    return true;
}

OrSentence<void> Parser::parse() {
    if (auto read = read_names(); !read)
        return read;
    const std::uint64_t cursor = m_head->cursor;
    const std::uint64_t end = m_head->end != 0 ? m_head->end.load() : std::min(cursor, m_head->limit);
    for (std::size_t at = m_head->first; at + sizeof(Record) <= end;) {
        const auto &record = *reinterpret_cast<const Record *>(m_bytes.data() + at);
        if (record.mark == 0) { // a process was killed before it wrote the mark, or the file is full
            at += 8;
            continue;
        }
        if (record.mark != record::kRecordMark || record.size < sizeof(Record) || record.size % 8 != 0 ||
            record.size > end - at)
            return damaged(at);
        if (record.complete != 0 && !read_record(record))
            return damaged(at);
        at += record.size;
    }
    return {};
}

} // namespace

OrSentence<Recording> Recording::read(const std::filesystem::path &path) {
    const std::string name = path.string();
    const std::unique_ptr<std::FILE, int (*)(std::FILE *)> file(std::fopen(name.c_str(), "rbe"), std::fclose);
    if (!file)
        return Sentence(os::format("cannot read {}: {}", name, std::strerror(errno)));
    Recording recording;
    std::size_t size = 0;
    const auto bytes = [&] { return std::span(reinterpret_cast<const char *>(recording.m_file.data()), size); };
    // Memory grows with what is in the file, not with what its head claims.
    const auto read_to = [&](std::uint64_t end) {
        for (std::size_t got = 1; size < end && got != 0; size += got) {
            const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(end - size, kReadBytes));
            recording.m_file.resize((size + wanted + 7) / 8);
            got = std::fread(reinterpret_cast<char *>(recording.m_file.data()) + size, 1, wanted, file.get());
        }
        return std::ferror(file.get()) == 0;
    };
    const auto unreadable = [&] { return Sentence(os::format("cannot read {}: {}", name, std::strerror(errno))); };
    if (!read_to(sizeof(record::Head)))
        return unreadable();
    if (auto checked = check_head(name, bytes()); !checked)
        return Sentence(checked.error());
    const std::uint64_t end = end_of(*reinterpret_cast<const record::Head *>(bytes().data()));
    if (!read_to(end))
        return unreadable();
    if (size < end)
        return Sentence(os::format("{} is truncated: it has {} of {} bytes", name, size, end));
    Parser parser(name, bytes());
    if (auto parsed = parser.parse(); !parsed)
        return Sentence(parsed.error());
    recording.m_events = std::move(parser.events);
    recording.m_processes = parser.processes.size();
    recording.m_lost = reinterpret_cast<const record::Head *>(recording.m_file.data())->lost;
    return recording;
}

std::vector<const RecordedCall *> Recording::calls() const {
    std::vector<const RecordedCall *> calls;
    for (const RecordedCall &event : m_events)
        if (!event.is_exit)
            calls.push_back(&event);
    return calls;
}

} // namespace gaudi::cli

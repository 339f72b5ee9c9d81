// SPDX-License-Identifier: BSD-3-Clause
#include "replay_order.h"

#include "replay_compare.h"

#include <algorithm>
#include <compare>
#include <deque>
#include <map>
#include <optional>

namespace gaudi::cli {
namespace {

using record::Function;

/// A value that the driver hands out again once it was given back.
struct Value {
    std::uint32_t process;
    std::uint64_t node;
    bool is_mapping; // else a handle
    std::uint64_t value;
    auto operator<=>(const Value &) const = default;
};

struct Use {
    Value value;
    bool ends;
};

std::optional<Use> find_use(const RecordedCall &event) {
    if (event.is_exit || !event.function || !is_success(description_of(event).answer, event.head->result))
        return {};
    const auto use = [&](bool is_mapping, bool ends) {
        return Use{{event.head->process, event.head->node, is_mapping, ends ? event.arguments[1] : event.head->result},
                   ends};
    };
    switch (*event.function) {
    case Function::device_memory_alloc:
        return use(false, false);
    case Function::device_memory_free:
        return use(false, true);
    case Function::device_memory_map:
    case Function::host_memory_map:
    case Function::host_memory_map_flags:
        return use(true, false);
    case Function::memory_unmap:
        return use(true, true);
    default:
        return {};
    }
}

} // namespace

std::vector<std::size_t> replay_order(std::span<const RecordedCall> events) {
    std::map<Value, std::deque<std::size_t>> ends; // in the order of the file, of those that are not placed yet
    for (std::size_t i = 0; i < events.size(); ++i)
        if (const auto use = find_use(events[i]); use && use->ends)
            ends[use->value].push_back(i);

    std::vector<std::size_t> order;
    order.reserve(events.size());
    std::vector<bool> placed(events.size());
    std::map<Value, std::size_t> live;
    const auto place = [&](std::size_t i) {
        order.push_back(i);
        placed[i] = true;
    };
    for (std::size_t i = 0; i < events.size(); ++i) {
        if (placed[i])
            continue;
        if (const auto use = find_use(events[i])) {
            std::size_t &count = live[use->value];
            std::deque<std::size_t> &later = ends[use->value];
            if (use->ends) {
                later.pop_front();
                count -= count != 0 ? 1 : 0;
            } else {
                const auto under_way = [&](std::size_t end) {
                    return events[end].head->start_ns <= events[i].head->end_ns;
                };
                if (const auto end = std::find_if(later.begin(), later.end(), under_way);
                    count != 0 && end != later.end()) {
                    place(*end);
                    later.erase(end);
                    --count;
                }
                ++count;
            }
        }
        place(i);
    }
    return order;
}

} // namespace gaudi::cli

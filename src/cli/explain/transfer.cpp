// SPDX-License-Identifier: BSD-3-Clause
#include "transfer.h"

#include "os/format.h"

#include <charconv>
#include <string_view>

namespace gaudi::cli::explain {
namespace {

/// All of the text as a number.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
    Number number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size())
        return {};
    return number;
}

} // namespace

OrSentence<End> parse_end(const std::string &text) {
    constexpr std::string_view kRemote = "remote:", kCard = "gaudi:";
    std::string_view rest = text;
    End end;
    if (rest.starts_with(kRemote)) {
        end.remote = true;
        rest.remove_prefix(kRemote.size());
    }
    if (rest == "host")
        return end;
    if (rest.starts_with(kCard))
        end.card = parse_number<unsigned>(rest.substr(kCard.size()));
    if (!end.card)
        return Sentence(os::format(
            "'{}' is neither gaudi:N, host, remote:gaudi:N nor remote:host, where N is the module id of a card", text));
    return end;
}

OrSentence<std::uint64_t> parse_bytes(const std::string &text) {
    std::string_view digits = text;
    unsigned shift = 0;
    if (!digits.empty()) {
        constexpr std::string_view kUnits = "KMG";
        const char last = digits.back();
        if (const std::size_t unit = kUnits.find(last >= 'a' ? static_cast<char>(last - 'a' + 'A') : last);
            unit != std::string_view::npos) {
            shift = 10 * (static_cast<unsigned>(unit) + 1);
            digits.remove_suffix(1);
        }
    }
    const auto number = parse_number<std::uint64_t>(digits);
    if (!number)
        return Sentence(os::format("'{}' is no size, as 4096, 64K, 1M or 2G are", text));
    if (*number == 0)
        return Sentence("a transfer of 0 bytes moves nothing; give a size as 4096, 64K, 1M or 2G");
    constexpr std::uint64_t kMost = std::uint64_t{1} << 40; // more than a card has
    if (*number > (kMost >> shift))
        return Sentence(os::format("'{}' is more than a card holds; the largest size is 1024G", text));
    return *number << shift;
}

OrSentence<Operation> parse_operation(const std::string &text) {
    for (const Operation operation : {Operation::tag, Operation::put, Operation::get})
        if (text == name_of(operation))
            return operation;
    return Sentence(os::format("--op {}: is neither tag, put nor get", text));
}

OrSentence<Transfer> parse_transfer(const std::string &from, const std::string &to, const std::string &bytes,
                                    const std::string &operation) {
    const auto parsed_from = parse_end(from), parsed_to = parse_end(to);
    if (!parsed_from || !parsed_to)
        return Sentence(!parsed_from ? parsed_from.error() : parsed_to.error());
    const auto parsed_bytes = parse_bytes(bytes);
    if (!parsed_bytes)
        return Sentence(parsed_bytes.error());
    const auto parsed_operation = parse_operation(operation);
    if (!parsed_operation)
        return Sentence(parsed_operation.error());
    const Transfer transfer{*parsed_from, *parsed_to, *parsed_bytes, *parsed_operation};
    if (transfer.from.remote && transfer.to.remote)
        return Sentence("FROM and TO are both remote: one of them is in this process");
    if (!transfer.from.card && !transfer.to.card)
        return Sentence("neither FROM nor TO is a card: name one as gaudi:N");
    if (transfer.is_between_processes() && transfer.from.card && transfer.from.card == transfer.to.card)
        return Sentence(os::format("two processes cannot open card {} at once: name another card for one of them",
                                   *transfer.from.card));
    return transfer;
}

std::string name_of(const End &end) {
    return os::format("{}{}", end.remote ? "remote:" : "", end.card ? os::format("gaudi:{}", *end.card) : "host");
}

const char *name_of(Operation operation) {
    switch (operation) {
    case Operation::tag:
        return "tag";
    case Operation::put:
        return "put";
    case Operation::get:
        return "get";
    }
    return "?";
}

} // namespace gaudi::cli::explain

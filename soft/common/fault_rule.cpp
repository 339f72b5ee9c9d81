// SPDX-License-Identifier: BSD-3-Clause
#include "common/fault_rule.h"

namespace soft {

OrSentence<std::string_view> read_calls(std::string_view rule, const FaultGrammar &grammar, StruckCalls &calls) {
    const size_t equals = rule.find('=');
    if (equals == std::string_view::npos)
        return Sentence(fmt::format("wants {}", grammar.form));
    std::string_view left = rule.substr(0, equals);

    calls.onwards = true;
    if (const size_t hash = left.find('#'); hash != std::string_view::npos) {
        std::string_view nth = left.substr(hash + 1);
        left = left.substr(0, hash);
        calls.onwards = nth.ends_with('+');
        if (calls.onwards)
            nth.remove_suffix(1);
        const auto count = number<uint64_t>(nth);
        if (!count || *count == 0)
            return Sentence("the number after '#' counts calls from 1");
        calls.first = *count;
    }
    if (const size_t at = left.find('@'); at != std::string_view::npos) {
        calls.device = number<unsigned>(left.substr(at + 1));
        if (!calls.device || *calls.device >= grammar.devices)
            return Sentence(
                fmt::format("the number after '@' is a {} from 0 to {}", grammar.device, grammar.devices - 1));
        left = left.substr(0, at);
    }
    cut_prefix(left, grammar.prefix);
    if (!grammar.knows(left))
        return Sentence("there is no such function to strike");
    calls.function = left;
    return rule.substr(equals + 1);
}

bool FaultCounts::strikes(size_t rule, const StruckCalls &calls, std::string_view function,
                          std::optional<unsigned> device) {
    if ((calls.function != "*" && calls.function != function) || (calls.device && calls.device != device))
        return false;
    const uint64_t nth = m_counts[rule].fetch_add(1, std::memory_order_relaxed) + 1;
    return nth == calls.first || (nth > calls.first && calls.onwards);
}

} // namespace soft

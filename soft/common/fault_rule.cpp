// SPDX-License-Identifier: BSD-3-Clause
#include "common/fault_rule.h"

namespace soft {

Expected<std::string_view> parse_calls(std::string_view rule, const FaultGrammar &grammar, CallPattern &calls) {
    const size_t equals = rule.find('=');
    if (equals == std::string_view::npos)
        return Unexpected(gaudi::os::format("expected {}", grammar.form));
    std::string_view head = rule.substr(0, equals);

    calls.onwards = true;
    if (const size_t hash = head.find('#'); hash != std::string_view::npos) {
        std::string_view nth = head.substr(hash + 1);
        head = head.substr(0, hash);
        calls.onwards = nth.ends_with('+');
        if (calls.onwards)
            nth.remove_suffix(1);
        const auto count = parse_number<uint64_t>(nth);
        if (!count || *count == 0)
            return Unexpected("the call number after '#' must be 1 or more");
        calls.first = *count;
    }
    if (const size_t at = head.find('@'); at != std::string_view::npos) {
        calls.device = parse_number<unsigned>(head.substr(at + 1));
        if (!calls.device || *calls.device >= grammar.devices)
            return Unexpected(gaudi::os::format("the {} after '@' must be a number from 0 to {}", grammar.device,
                                                grammar.devices - 1));
        head = head.substr(0, at);
    }
    cut_prefix(head, grammar.prefix);
    if (!grammar.is_known(head))
        return Unexpected("no fault can be set for this function");
    calls.function = head;
    return rule.substr(equals + 1);
}

bool FaultCounts::count_call(size_t rule, const CallPattern &calls, std::string_view function,
                             std::optional<unsigned> device) {
    if ((calls.function != "*" && calls.function != function) || (calls.device && calls.device != device))
        return false;
    const uint64_t nth = m_counts[rule].fetch_add(1, std::memory_order_relaxed) + 1;
    return nth == calls.first || (nth > calls.first && calls.onwards);
}

} // namespace soft

// SPDX-License-Identifier: BSD-3-Clause
#include "findings.h"

#include "cli/write_stdout.h"
#include "os/format.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace gaudi::cli::verify {

const char *name_of(Verdict verdict) {
    switch (verdict) {
    case Verdict::held:
        return "held";
    case Verdict::failed:
        return "failed";
    default:
        return "not testable here";
    }
}

void Findings::add(Finding finding) {
    Progress::clear();
    os::print(stdout, "{}: {}\n  saw: {}\n  {}: {}\n", finding.step, finding.did, finding.saw,
              os::join(finding.ids, ", "), name_of(finding.verdict));
    for (const std::string &id : finding.ids)
        if (const Assumption *assumption = find_assumption(id))
            os::print(stdout, "  then ({}): {}\n", id, consequence_of(*assumption, finding.verdict));
    (void)finish_stdout(); // a failure decides the exit code at the end
    m_all.push_back(std::move(finding));
}

void Findings::note(const std::string &name, const std::string &value) {
    Progress::clear();
    os::print(stdout, "{:<14}{}\n", name + ":", value);
    m_notes.emplace_back(name, value);
}

Verdict Findings::about(const Assumption &assumption) const {
    Verdict verdict = Verdict::not_testable;
    for (const Finding &finding : m_all) {
        if (std::find(finding.ids.begin(), finding.ids.end(), assumption.id) == finding.ids.end())
            continue;
        if (finding.verdict == Verdict::failed)
            return Verdict::failed;
        if (finding.verdict == Verdict::held)
            verdict = Verdict::held;
    }
    return verdict;
}

bool Findings::any_failed() const {
    return std::any_of(m_all.begin(), m_all.end(),
                       [](const Finding &finding) { return finding.verdict == Verdict::failed; });
}

std::string consequence_of(const Assumption &assumption, Verdict verdict) {
    switch (verdict) {
    case Verdict::held:
        return "ucx-gaudi relies on it";
    case Verdict::failed:
        return std::string(assumption.if_false);
    default:
        return os::format("ucx-gaudi relies on it unproven; if it is false: {}", assumption.if_false);
    }
}

void Progress::show(const std::string &text) {
    if (::isatty(STDERR_FILENO) != 0)
        os::print(stderr, "\r\033[K{}", text);
}

void Progress::clear() {
    if (::isatty(STDERR_FILENO) != 0)
        os::print(stderr, "\r\033[K");
}

} // namespace gaudi::cli::verify

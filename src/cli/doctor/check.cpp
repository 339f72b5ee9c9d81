// SPDX-License-Identifier: BSD-3-Clause
#include "check.h"

namespace gaudi::cli::doctor {

const char *name_of(Verdict verdict) {
    switch (verdict) {
    case Verdict::ok:
        return "OK";
    case Verdict::warn:
        return "WARN";
    case Verdict::fail:
        return "FAIL";
    case Verdict::skip:
        return "SKIP";
    }
    return "?";
}

std::vector<Result> judge(const Facts &facts) {
    std::vector<Result> results;
    for (const auto group : {kernel_checks(), card_checks(), path_checks(), ucx_checks(), setting_checks(),
                             nic_checks(), limit_checks(), active_checks()})
        for (const Check &check : group)
            results.push_back({&check, check.judge(facts)});
    return results;
}

} // namespace gaudi::cli::doctor

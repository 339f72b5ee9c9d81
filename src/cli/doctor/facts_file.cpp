// SPDX-License-Identifier: BSD-3-Clause
#include "facts_file.h"

#include "cli/read_file.h"
#include "cli/report_file.h"

namespace gaudi::cli::doctor {

OrSentence<Facts> read_facts_file(const std::string &path) {
    const auto text = read_file(path);
    if (!text)
        return Sentence(text.error());
    return read_facts(*text, path);
}

OrSentence<void> write_facts_file(const Facts &facts, const std::string &path) {
    return write_report(path, write_facts(facts));
}

} // namespace gaudi::cli::doctor

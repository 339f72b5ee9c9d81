// SPDX-License-Identifier: BSD-3-Clause
// Prints how ends are noticed by default with the libhl-thunk that is named: as a set-uid program sees it.
#include "gaudi/card/verification_record.h"
#include "os/format.h"

#include <unistd.h>

#include <cstdio>

int main(int, char **words) {
    const auto library = gaudi::thunk::Library::load(words[1]);
    if (!library)
        return 1;
    const gaudi::CardVersions versions{words[2], words[3], words[4]};
    const auto chosen = gaudi::choose_completion(gaudi::find_records(**library, versions), versions);
    gaudi::os::print(stdout, "{}: {}\n", chosen.by_flag ? "flag" : "driver", chosen.reason);
    std::fflush(stdout);
    ::_exit(0); // a leak checker cannot look at a set-uid program
}

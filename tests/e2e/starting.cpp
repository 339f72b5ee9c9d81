// SPDX-License-Identifier: BSD-3-Clause
// Starts UCX once, for tests/start_cost.py to count instructions and memory: prints by how many bytes ucp_init has made the
// heap grow, and how many bytes of pages it has written to.
#include <ucp/api/ucp.h>

#include <malloc.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

namespace {

/// Bytes of this process's own pages that were written to.
long count_dirty() {
    std::ifstream file("/proc/self/smaps_rollup");
    for (std::string word; file >> word;)
        if (long kibibytes = 0; word == "Private_Dirty:" && file >> kibibytes)
            return kibibytes * 1024;
    return -1;
}

long count_heap() {
    const struct mallinfo2 heap = mallinfo2();
    return static_cast<long>(heap.uordblks + heap.hblkhd);
}

} // namespace

int main() {
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_TAG | UCP_FEATURE_RMA;
    ucp_context_h context = nullptr;
    count_dirty(); // the first call has costs of its own
    const long heap = count_heap(), dirty = count_dirty();
    if (ucp_init(&params, nullptr, &context) != UCS_OK)
        return 1;
    const long heap_after = count_heap(), dirty_after = count_dirty();
    std::printf("heap %ld dirty %ld\n", heap_after - heap, dirty_after - dirty);
    ucp_cleanup(context);
    std::fflush(stdout);
    std::_Exit(0); // under valgrind NIXL's libnl-route crashes in its destructors
}

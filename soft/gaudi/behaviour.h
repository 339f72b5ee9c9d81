// SPDX-License-Identifier: BSD-3-Clause
// Where cards and drivers may differ from each other.
#pragma once

#include <cerrno>
#include <cstdint>
#include <vector>

namespace softgaudi {

/// Behaviour of some cards and drivers that SOFTGAUDI_QUIRKS switches on.
struct Quirks {
    bool mainline = false;   // exports ignore their offset
    bool posted = false;     // writes through a dma-buf reach the card's engines only after a flush
    bool fallback = false;   // descriptors of no card are taken for the first card's
    bool early_flag = false; // under load, a message may arrive before the copy that it follows
    bool kill = false;       // a reset kills the process that does not close the card in time
    uint32_t window_s = 30;  // with kill: the time to close it that a process with a notifier has before the reset
    bool nested = false;     // a queue goes on while a nested command buffer waits for its turn
};

/// A queue of the card that does not copy.
struct BadQueue {
    uint32_t queue;
    int error; // of each submission to it; 0: submissions complete, and their copies move nothing
};

/// What SOFTGAUDI_PROFILE sets. The defaults are those of a Gaudi2 with the public driver. An errno of 0 means success.
struct Behaviour {
    int second_open = EBUSY; // 0: it shares the context of the first
    int wait_0_compute = 0;  // wait_for_cs of submission 0, on each node
    int wait_0_control = ENOTTY;
    int duplicate = 0; // calls on another descriptor than that which the open returned

    uint64_t reported_page = 0; // 0: the page that memory is allocated in
    uint64_t first_offset = 0;  // of the first mapping without a hint, from the start of the range
    bool hints_ignored = false;
    int hint = 0;       // a mapping with a usable hint
    int taken_hint = 0; // a mapping with a hint that is not free; 0: it is mapped elsewhere

    int export_any = 0;
    int export_part = 0;             // less than the mapping, from its start
    int export_inside = EINVAL;      // from an address inside the mapping
    int export_too_long = EINVAL;    // 0: the export ends with the mapping
    int export_offset = 0;           // from an offset
    int unmap_exported = EINVAL;     // while a dma-buf is open
    uint64_t bar_bytes = UINT64_MAX; // of device memory that others reach by PCIe: no export is longer

    int odd_start = 0; // of host memory: not at a page
    int odd_length = 0;
    bool pages_kept = true; // else a copy accesses what is at the address at that time

    int submission = EINVAL; // on a card without queues for users
    std::vector<BadQueue> bad_queues;
    uint32_t most_in_flight = 0; // submissions; one more is refused with window_full. 0: the library waits for room
    int window_full = 0;

    int flush = 0;
    bool flush_works = true;
};

} // namespace softgaudi

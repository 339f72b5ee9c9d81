// SPDX-License-Identifier: BSD-3-Clause
// What a model needs of the kernel, tried once at its start: in a container a filter may deny it, and a copy that fails
// later would read as a fault of the device.
#pragma once

#include "common/parsing.h"

namespace soft {

/// Tries process_vm_readv and process_vm_writev on this process. The error names the one that is denied and the remedy;
/// `use` says what does not work without them.
Expected<void> try_memory_calls(std::string_view use);

/// The same for pidfd_open and pidfd_getfd.
Expected<void> try_descriptor_calls(std::string_view use);

/// Checks that the file system of `dir` has room for the files that a model writes at its start: they are mapped, and
/// writing to a mapping of a full tmpfs ends the process with SIGBUS.
Expected<void> check_room(const std::string &dir, const char *variable);

} // namespace soft
